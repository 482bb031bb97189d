"""Attacks on nearkin, kept: ``make fuzz`` or ``python -m fuzz``.

Every module here that has a ``WEIGHT`` and a function ``run`` is one kind of attack. To add one, add a file::

    \"\"\"What is attacked, and the law that must hold.\"\"\"

    WEIGHT = 2.0  # share of the time, beside those of the other kinds


    def run(seconds: float, seed: int, report: Report) -> None:
        for case in report.cases(seconds, seed):  # ends when the time is over
            data = case.rng.normal(size=(20, 3))  # draw from ``case.rng`` only: seed and number then give the same case
            path = case.folder / "data.npy"  # an empty folder, removed after the case
            np.save(path, data)
            problem = None if law_holds(path) else "what went wrong, in one line"
            report.count(case, "group", problem)  # a failing case's folder is saved, with the command that repeats it

``group`` is a row of the table: a few words, such as the kind of file. A case may be counted under several groups. An
exception that leaves ``run`` counts as a failure of the case in hand. What may crash, hang or eat memory belongs into a
child process: `fuzz.child.call`.

A case holds unless it ends by a signal, outlives its time, takes more memory than it may, exits with 1, prints a
traceback, accepts damage silently, or changes a byte of a file that is not its own.
"""
