"""Fits one peer and prints its times; runs in the peers' environment, so it imports nothing of ours.

``python peers.py NAME DATA.npz SECONDS`` with X, y, X_test, y_test in the file; after that much processor time the fit
is stopped.
"""

import json
import signal
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")


def build(name):
    if name == "NCA":
        from sklearn.neighbors import NeighborhoodComponentsAnalysis

        return NeighborhoodComponentsAnalysis(random_state=0)
    import metric_learn

    if name == "LMNN":
        return metric_learn.LMNN(random_state=0)
    if name == "ITML":
        return metric_learn.ITML_Supervised(random_state=0)
    if name == "SCML":
        return metric_learn.SCML_Supervised(random_state=0)
    return metric_learn.LSML_Supervised(random_state=0)


class Stopped(BaseException):
    pass


def stop(*_):
    raise Stopped


def main():
    name, path, limit = sys.argv[1:]
    with np.load(path) as file:
        X, y, X_test, y_test = (file[key] for key in ("X", "y", "X_test", "y_test"))
    model = build(name)
    from sklearn.neighbors import KNeighborsClassifier

    signal.signal(signal.SIGPROF, stop)
    wall, cpu, stopped = time.perf_counter(), time.process_time(), False
    signal.setitimer(signal.ITIMER_PROF, float(limit))
    try:
        model.fit(X, y)
    except Stopped:
        stopped = True
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    signal.setitimer(signal.ITIMER_PROF, 0)
    said = {"wall": wall, "cpu": cpu, "stopped": stopped}
    if not stopped:
        said["accuracy"] = KNeighborsClassifier(3).fit(model.transform(X), y).score(model.transform(X_test), y_test)
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
