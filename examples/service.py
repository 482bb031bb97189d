"""A service that learns while it answers: labelled rows come in by HTTP, labels are judged, rows are classified.

Run without arguments it tries itself out. To serve::

    python examples/service.py --model audit.nearkin --port 8080

    POST /learn    {"rows": [[...], ...], "labels": [...]}  judges the labels, then learns from them
    POST /score    {"rows": [[...], ...]}                   classes; with "labels" also how plausible they are
    GET  /metrics  counters, one a line

The model is saved when the service stops (SIGTERM or Ctrl-C), and restored when it starts. A request that cannot be
understood gets status 400 with a sentence, and changes nothing. It listens on this machine only and asks nobody for a
password: put it behind something that does.
"""

import argparse
import json
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nearkin

LARGEST = 16 << 20  # bytes of a request


class Service(ThreadingHTTPServer):
    """One audit for all requests: `partial_fit` takes turns, scoring waits for nobody."""

    def __init__(self, path, port=0):
        self.path = Path(path)
        self.audit = nearkin.load(self.path) if self.path.exists() else nearkin.StreamAudit(random_state=0)
        self.seconds, self.calls = 0.0, 0
        super().__init__(("127.0.0.1", port), Handler)

    def learn(self, rows, labels):
        """Judge labels and learn from them; the verdict and the audit must be of the same moment."""
        with self.turn:
            begun = time.perf_counter()
            self.audit.partial_fit(rows, labels)
            self.seconds, self.calls = self.seconds + time.perf_counter() - begun, self.calls + 1
            seen = nearkin.snapshot(self.audit)
        return {
            "plausibility": seen.plausibility_.tolist(),
            "is_suspect": seen.is_suspect_.tolist(),
            "suggested": seen.suggested_label_.tolist(),
        }

    def score(self, rows, labels=None):
        """Classify rows, and judge labels if there are any; nothing is learned."""
        seen = nearkin.snapshot(self.audit)  # both answers by the same model
        found = {"classes": seen.predict(rows).tolist()}
        if labels is not None:
            found["plausibility"] = seen.plausibility(rows, labels).tolist()
        return found

    def metrics(self):
        """What somebody who watches the service wants to know."""
        seen = nearkin.snapshot(self.audit)
        values = {"rows_total": 0, "noise_rate": 0.0, "learn_calls_total": self.calls}
        if hasattr(seen, "held_"):
            values |= {"rows_total": seen.n_rows_seen_, "noise_rate": seen.noise_rate_, "rows_held": len(seen.held_)}
        values["learn_seconds_total"] = self.seconds
        return "".join(f"nearkin_{name} {value}\n" for name, value in values.items())

    turn = threading.Lock()

    def server_close(self):
        """Save what was learned; a half-written file never takes the place of a good one."""
        super().server_close()
        nearkin.save(self.audit, self.path)


class Handler(BaseHTTPRequestHandler):
    """JSON in, JSON out."""

    server: Service

    def do_POST(self):
        try:
            request = self.read()
            if self.path == "/learn":
                self.answer(200, self.server.learn(request["rows"], request["labels"]))
            elif self.path == "/score":
                self.answer(200, self.server.score(request["rows"], request.get("labels")))
            else:
                self.answer(404, {"error": f"there is no {self.path}; POST /learn or /score"})
        except KeyError as error:
            self.answer(400, {"error": f"{error} is missing"})
        except (ValueError, TypeError) as error:  # not JSON, or not rows and labels that the audit accepts
            self.answer(400, {"error": str(error)})

    def do_GET(self):
        if self.path == "/metrics":
            self.answer(200, self.server.metrics())
        else:
            self.answer(404, {"error": f"there is no {self.path}; GET /metrics"})

    def read(self):
        size = int(self.headers.get("Content-Length", 0))
        if size > LARGEST:
            raise ValueError(f"the request has {size} bytes; send at most {LARGEST}")
        request = json.loads(self.rfile.read(size))
        if not isinstance(request, dict):
            raise ValueError("the request must be a JSON object")
        return request

    def answer(self, status, content):
        body = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


def serve(path, port):
    """Serve until somebody stops it."""
    service = Service(path, port)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=service.shutdown).start())
    print(f"http://127.0.0.1:{service.server_address[1]}", flush=True)
    try:
        service.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        service.server_close()


def try_out():
    """Learn the digits over HTTP, stop, start again, and go on."""
    import tempfile
    import urllib.request

    from sklearn.datasets import load_digits

    X, y = load_digits(n_class=4, return_X_y=True)
    noisy, is_wrong = nearkin.flip_labels(y, 0.1, random_state=0)

    def post(service, name, **content):
        url = f"http://127.0.0.1:{service.server_address[1]}/{name}"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(content).encode())) as reply:
            return json.load(reply)

    def run(path, rows):
        service = Service(path)
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        found = [post(service, "learn", rows=X[i : i + 50].tolist(), labels=noisy[i : i + 50].tolist()) for i in rows]
        score = post(service, "score", rows=X[600:].tolist(), labels=noisy[600:].tolist())
        service.shutdown()
        thread.join()
        service.server_close()
        return found, score

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.nearkin"
        run(path, range(0, 300, 50))
        _, score = run(path, range(300, 600, 50))
        right = sum(one == true for one, true in zip(score["classes"], y[600:].tolist(), strict=True))
        print(f"{right} of {len(y) - 600} new rows classified right after a restart")
        doubted = [p < 0.5 for p in score["plausibility"]]
        print(f"{sum(doubted)} labels doubted, {sum(is_wrong[600:])} wrong")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="file that is restored and saved")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    if options.model is None:
        try_out()
    else:
        serve(options.model, options.port)
