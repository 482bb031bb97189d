"""Streams whose processes are killed, stopped and interrupted: the same bits at the end, one writer, nothing left.

A case learns a small stream through ``nearkin fit --checkpoint --resume`` and ends it again and again (SIGKILL,
SIGINT), until it gets through; then other data must be refused. The soak is one long stream with drift, new classes
and bad rows, with damaged checkpoints too; its model must equal the one that learns the accepted rows in one clean
process.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import nearkin
from fuzz.child import command, command_problem
from fuzz.report import Report
from nearkin import streams
from nearkin.saving import write_tree
from nearkin.streams.checkpoint import Checkpoint

WEIGHT = 2.0
#: Share of the time for the soak, and its least seconds; the replay takes about a third of it.
SOAK, SOAK_S = 0.4, 10.0


def run(seconds: float, seed: int, report: Report) -> None:
    """Kill and resume small streams; then the soak, as the last case."""
    end = time.monotonic() + seconds
    soaked = 0.0 if report.only is not None or seconds < 2 * SOAK_S else max(SOAK_S, SOAK * seconds)
    warm_up()
    for case in report.cases(seconds - soaked, seed):
        for group, problem in kill_case(case.folder, case.rng):
            report.count(case, group, problem)
    if soaked:
        for case in report.cases(1e9, seed, limit=1):
            found = soak(max(SOAK_S, end - time.monotonic()) * 0.7, seed, case.folder)
            report.count(case, f"soak, {found['kills'] + found['interrupts']} ends", found["problem"])


# ---------------------------------------------------------------------- small streams through the command


def kill_and_resume(seconds: float, seed: int) -> Counter[str]:
    """Run cases for some seconds; return how many of each group were tried, and how many failed."""
    counts: Counter[str] = Counter()
    end, number = time.monotonic() + seconds, 0
    warm_up()
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            for group, problem in kill_case(Path(folder), np.random.default_rng([seed, number])):
                counts[group] += 1
                counts["failed"] += problem is not None
        number += 1
    return counts


def kill_case(folder: Path, rng: np.random.Generator) -> list[tuple[str, str | None]]:
    """Return groups and problems of one stream: its ends, the lock, and data that was changed."""
    paths, words = write_data(folder / "data", rng)
    args = ["fit", *words, "--batch-rows", rng.choice([16, 32, 100]), "--seed", 3, "-q"]
    args += ["--checkpoint", "ck", "--checkpoint-every", rng.choice(["0", "0.02"]), "--log", "log", "--voters", 0]
    args += ["--epochs", rng.choice([1, 2]), *(["--shuffle"] if rng.random() < 0.5 else [])]
    args += ["--missing", "drop"] if rng.random() < 0.3 else []
    args += ["--centers", 2] if rng.random() < 0.3 else []
    for name in ("clean", "killed"):
        (folder / name).mkdir()
    clean = command(*args, "-o", "m.nearkin", folder=folder / "clean")
    if problem := command_problem(clean) or (clean.code and clean.err):
        return [("kill and resume", f"the clean run fails: {problem}")]
    again = [str(one) for one in (*args, "--resume", "-o", "m.nearkin")]
    found = [("kill and resume", end_again_and_again(again, folder, rng))]
    if found[0][1] is None:
        found.append(("changed data", refuse_changed(again, folder / "killed", paths, rng)))
    return found


def write_data(folder: Path, rng: np.random.Generator) -> tuple[list[Path], list[object]]:
    """Write a small stream of a random kind; return its files, and how the command line names them."""
    folder.mkdir()
    n = int(rng.integers(300, 1500))
    y = rng.integers(0, 3, n)
    X = (y[:, None] + rng.normal(size=(n, 4))).astype(np.float32)
    kind = rng.choice(["npy", "csv", "parquet"])
    if kind == "npy":
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        return [folder / "X.npy", folder / "y.npy"], ["--stream", folder / "X.npy", "--labels", folder / "y.npy"]
    paths = [folder / f"{number}.{kind}" for number in range(2)]
    for path, rows in zip(paths, (slice(0, n // 2), slice(n // 2, n)), strict=True):
        if kind == "csv":
            table = np.column_stack([X[rows], y[rows]])
            np.savetxt(path, table, delimiter=",", header="a,b,c,d,y", comments="", fmt=["%.6g"] * 4 + ["%d"])
        else:
            import pyarrow as pa
            from pyarrow import parquet

            columns = {name: X[rows, i] for i, name in enumerate("abcd")}
            parquet.write_table(pa.table({**columns, "y": y[rows]}), path, row_group_size=200)
    return paths, [*paths, "--label", "y"]


def end_again_and_again(args: list[str], folder: Path, rng: np.random.Generator) -> str | None:
    """End a command at random moments until it gets through; return what is wrong."""
    home = folder / "killed"
    for attempt in range(9):
        kind = [signal.SIGKILL, signal.SIGINT, signal.SIGSTOP, None][0 if attempt < 1 else int(rng.integers(4))]
        kind = None if attempt == 8 else kind
        child = start(args, home)
        if kind is not None:
            time.sleep(float(rng.exponential(0.15)))
            os.kill(child, kind)
        if kind is signal.SIGSTOP:
            second = refuse_second(args, home, child)
            os.kill(child, signal.SIGCONT)
            if second:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return second
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = (home / "stderr").read_text(errors="replace")
        if "Traceback" in said or code not in (0, -signal.SIGKILL, 130):
            return f"after {signal.Signals(kind).name if kind else 'no signal'} exit code {code}: {said[-300:]}"
        if code == 0:
            break
    (home / "stderr").unlink()
    if (home / "m.nearkin").read_bytes() != (folder / "clean" / "m.nearkin").read_bytes():
        return f"after {attempt} ends the model is another one"
    left = {one.name for one in home.iterdir()} - {"ck", "ck.previous", "log", "m.nearkin"}
    left |= {one.name for one in (folder / "data").iterdir() if one.name.startswith(".")}
    return f"left behind: {sorted(left)}" if left else None


def start(args: list[str], home: Path) -> int:
    """Start a command in a forked child; return its number."""
    (home / "stderr").write_bytes(b"")  # a child may be killed before it opens it
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.chdir(home)
        os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stderr = os.fdopen(2, "w", errors="replace", closefd=False)
        from nearkin.cli import main

        main.main(args, prog_name="nearkin")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        code = 130  # before the command began
    except BaseException as error:
        sys.stderr.write(f"Traceback of {error!r}")
    finally:
        sys.stderr.flush()
        os._exit(code)


def refuse_second(args: list[str], home: Path, holder: int) -> str | None:
    """Return what is wrong if a second process is not told who has the checkpoint of one that stands still."""
    lock = home / "ck.lock"
    if not lock.exists() or f'"pid": {holder},' not in lock.read_text():
        return None  # it has not begun, or has finished
    found = command(*args, folder=home)
    told = f"in use by process {holder} on"
    return None if found.code == 2 and told in found.err else f"a second process: {found.code} {found.err[-200:]}"


def refuse_changed(args: list[str], home: Path, paths: list[Path], rng: np.random.Generator) -> str | None:
    """Return what is wrong if a finished checkpoint is accepted after a byte of the data has changed."""
    path = paths[rng.integers(len(paths))]
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)
    shutil.copy(home / "m.nearkin", home / "before.nearkin")
    found = command(*args, folder=home)
    if found.code == 0:
        return f"a changed byte in {path.name} was accepted"
    if (home / "m.nearkin").read_bytes() != (home / "before.nearkin").read_bytes():
        return "a refused run changed the model"
    return command_problem(found, *(one.name for one in paths), "ck")


def warm_up() -> None:
    """Compile here what children need."""
    with tempfile.TemporaryDirectory() as name:
        for seed in range(3):
            folder = Path(name) / str(seed)
            folder.mkdir()
            _, words = write_data(folder / "data", np.random.default_rng(seed))
            child = start([str(one) for one in ("fit", *words, "--voters", 0, "-q", "-o", "m.nearkin")], folder)
            os.waitpid(child, 0)
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        y = rng.integers(0, 3, 200)
        X = (y[:, None] + rng.normal(size=(200, 4))).astype(dtype)
        streams.fit_stream(nearkin.RobustLODML(random_state=0), streams.open([(X, y)], batch_rows=50))


# ---------------------------------------------------------------------- the soak

ROWS, FEATURES, ALIVE = 2048, 16, 8
#: Batches after which a class is replaced by a new one, and rows a second at most.
LIFE, RATE = 40, 60_000


def make_batch(seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the batch of a number: the same whoever asks. Classes drift; one batch in a hundred is bad."""
    rng = np.random.default_rng([seed, number])
    y = number // LIFE + rng.integers(0, ALIVE, ROWS)
    angle = 0.002 * number
    X = rng.normal(size=(ROWS, FEATURES))
    for label in np.unique(y):
        home = 2.0 * np.random.default_rng([seed, 1 << 40, int(label)]).normal(size=FEATURES)
        home[:2] = home[0] * np.cos(angle) - home[1] * np.sin(angle), home[0] * np.sin(angle) + home[1] * np.cos(angle)
        X[y == label] += home
    y = np.where(rng.random(ROWS) < 0.1, y.min() + rng.integers(0, ALIVE, ROWS), y).astype(float)
    if rng.random() < 0.01:
        kind, some = rng.integers(4), rng.random(ROWS) < rng.choice([0.01, 0.5, 1.0])
        if kind == 0:
            X[some, rng.integers(FEATURES)] = np.nan
        elif kind == 1:
            X[some, rng.integers(FEATURES)] = np.inf
        elif kind == 2:
            y[some] = np.nan
        else:
            X[some], y[some] = np.nan, np.nan
    return X.astype(np.float32), y


def make_learner(seed: int) -> nearkin.RobustLODML:
    """Return a learner for streams that never end, with a discriminant start or in the paper's form."""
    init = ["discriminant", "auto"][seed % 2]
    source = nearkin.OCTG(max_centers=4 * ALIVE, update_centers=True, forget_after=5000.0)
    return nearkin.RobustLODML(n_components=8, init=init, triplets=source, random_state=0)


def learn(seed: int, folder: Path) -> None:
    """Learn until stopped, in whatever way: what the child does."""

    def chunks(first: int) -> Any:
        number = first // ROWS
        while True:
            yield make_batch(seed, number)
            number += 1

    begun, rows = time.monotonic(), 0

    def report(_: streams.Report) -> None:
        nonlocal rows
        rows += ROWS
        if (folder / "stop").exists():
            raise KeyboardInterrupt
        time.sleep(max(0.0, rows / RATE - (time.monotonic() - begun)))

    stream = streams.open(chunks, batch_rows=ROWS, missing="drop")
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(KeyboardInterrupt):
        streams.fit_stream(
            make_learner(seed), stream, checkpoint=folder / "ck.nearkin", checkpoint_every=0.5, resume=True,
            log=folder / "log.jsonl", on_report=report,
        )  # fmt: skip


def replay(seed: int, n_batches: int) -> nearkin.RobustLODML:
    """Learn the accepted rows in one clean process."""
    model = make_learner(seed)
    for number in range(n_batches):
        X, y = make_batch(seed, number)
        kept = np.isfinite(X).all(axis=1) & np.isfinite(y)
        if kept.any():
            model.partial_fit(X[kept], y[kept])
    return model


def digest(model: nearkin.RobustLODML) -> str:
    """Return a digest of what was learned."""
    file = io.BytesIO()
    write_tree(model.state_, file)
    return hashlib.sha256(file.getvalue()).hexdigest()


def soak(seconds: float, seed: int, folder: Path | None = None) -> dict[str, Any]:
    """Learn one stream for some seconds, through kills, interrupts and damaged checkpoints; return the counts."""
    if folder is None:
        with tempfile.TemporaryDirectory() as name:
            return soak(seconds, seed, Path(name))
    rng = np.random.default_rng(seed)
    counts: dict[str, Any] = {"kills": 0, "interrupts": 0, "damaged checkpoints": 0, "recoveries": 0, "peak": 0}
    checkpoint = Checkpoint(folder / "ck.nearkin")
    end, is_last = time.monotonic() + seconds, False
    while not is_last:
        is_last = time.monotonic() > end
        if is_last:
            (folder / "stop").touch()
        before = count_batches(checkpoint)
        child = os.fork()
        if not child:
            # A shell lets its background commands ignore interrupts.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            learn(seed, folder)
            os._exit(0)
        if not is_last:
            kind = rng.choice(["kills", "kills", "interrupts"])
            time.sleep(float(rng.uniform(1.0, min(8.0, max(2.0, seconds / 4)))))
            os.kill(child, signal.SIGKILL if kind == "kills" else signal.SIGINT)
            counts[kind] += 1
        _, status, usage = os.wait4(child, 0)
        counts["peak"] = max(counts["peak"], usage.ru_maxrss * 1024)
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
            return {**counts, "problem": f"a child failed with {os.WEXITSTATUS(status)}"}
        counts["recoveries"] += count_batches(checkpoint) > before > 0
        if not is_last and rng.random() < 0.2 and checkpoint.path.exists() and checkpoint.previous.exists():
            whole = checkpoint.path.read_bytes()
            checkpoint.path.write_bytes(whole[: int(rng.integers(len(whole)))])
            counts["damaged checkpoints"] += 1
    kept = checkpoint.read()
    watch = kept["learner"].history_.watch
    counts |= {"batches": watch.n_batches, "drift signals": watch.monitor.n_alarms}
    counts |= {"rows": watch.total.n_rows, "dropped": watch.total.n_dropped}
    counts["centres"] = len(kept["learner"].triplet_source_.centers_)
    is_same = digest(kept["learner"]) == digest(replay(seed, counts["batches"]))
    left = {one.name for one in folder.iterdir()} - {"ck.nearkin", "ck.nearkin.previous", "log.jsonl", "stop"}
    problem = f"left behind: {sorted(left)}" if left else None
    return {**counts, "problem": problem if is_same else "the model is not that of a clean replay"}


def count_batches(checkpoint: Checkpoint) -> int:
    """Return how many batches a checkpoint has learned."""
    if not checkpoint.exists():
        return 0
    with warnings.catch_warnings(action="ignore"):
        return int(Checkpoint(checkpoint.path).read()["learner"].history_.watch.n_batches)
