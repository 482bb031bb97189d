"""Audit of more rows than fit into memory: a jury of references drawn from all of them judges part after part."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nearkin import progress
from nearkin.arrays import Array, Codes, Index
from nearkin.distributed.audit_tasks import Judge, draw_share, judge_share, survey_share
from nearkin.distributed.cluster import Cluster, Task, connect
from nearkin.distributed.cluster_audit import ClusterAudit, SuspectFiles
from nearkin.distributed.counts import Cells, Survey
from nearkin.distributed.driver import Share, check_result, form_shares, name_share
from nearkin.distributed.tasks import pack
from nearkin.errors import InputError, owned_by
from nearkin.files import replacing
from nearkin.jury import JuryDecision, assemble_jury
from nearkin.jury.decision import check_size, note_rate
from nearkin.jury.judged import MOST_MEMBERS, count_members
from nearkin.jury.local_scaling import narrow
from nearkin.jury.suspects import call_wrong
from nearkin.kernels import one_blas_thread
from nearkin.labels import refuse_several, sorted_classes, warn_of_lookalikes
from nearkin.noise.model import agree_with_tiers
from nearkin.rows import Rows, Scaling, check_range
from nearkin.settings import Integer, OneOf, Real, check_argument
from nearkin.streams.file_stream import FileStream
from nearkin.tables import require_pyarrow

__all__ = ["audit"]

_OWNER = "distributed.audit"

#: Numbers in a batch, most and fewest rows of one, and batches of a task.
_NUMBERS, _MOST_ROWS, _FEWEST_ROWS = 1 << 22, 1 << 16, 1 << 10
_BATCHES = 4
#: Tasks of each worker at a time.
_AHEAD = 2


def audit(
    source: FileStream, folder: str | os.PathLike[str], *, client: Any = "local:2", noise_rate: float | str = "auto",
    random_state: int = 0, timeout: float = 300.0,
) -> ClusterAudit:  # fmt: skip
    """Audit the labels of a stream of files on a Dask cluster; no process holds more than a part of the rows.

    The jury is that of `nearkin.audit_labels` for large tables: at most 49,152 rows vote, drawn from all files, every
    class as its size but 30 rows of each. It is made once, and every part of the rows is judged by it. A row that
    votes, or equals one that does, is judged without that row's label.

    Parameters
    ----------
    source : FileStream
        From `nearkin.streams.open`; all workers must see the files under the same paths. Its `batch_rows` and order do
        not matter here.
    folder : path
        New or empty folder for the results, which all workers must see under the same path too.
    client : distributed.Client or str, default="local:2"
        A client, the address of a scheduler, or ``"local:N"`` for N processes of this machine.
    noise_rate : float in [0, 1) or "auto", default="auto"
        Share of wrong labels, if you know it; about that many rows are then suspects.
    random_state : int, default=0
        Seed of the draw and of the jury.
    timeout : float, default=300.0
        Seconds that a part may take before another worker gets it too, and that a cluster may be without workers.

    Returns
    -------
    ClusterAudit
        Figures and the most doubtful rows. All suspects are in ``suspects-00000.parquet`` and so on, the figures in
        ``audit.json``, which comes last. For the same rows in the same order and a seed all of it is the same to the
        bit, on any number of workers, whatever happens to them, and however the rows are split into files.

    Raises
    ------
    ConnectionError
        If the scheduler is lost, or no worker can do the work. Nothing is left then.
    ValueError
        If rows cannot be judged, or a worker has another version of nearkin, NumPy or Python.

    Notes
    -----
    The files are read three times: for classes and scale, for the references, and to judge. Sums over parts are taken
    in the order of the rows. Where a share of all labels is a bound, labels whose plausibility differs by less than
    about one part in a thousand are suspects together.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_wine
    >>> from nearkin import distributed, streams
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_wine(as_frame=True).frame.to_csv(f"{folder}/wine.csv", index=False)
    ...     stream = streams.open(f"{folder}/*.csv", label="target")
    ...     print(distributed.audit(stream, f"{folder}/suspects", client="local:1"))
    rows: 178 with 13 features
    classes: 3
    references: 178 rows, drawn from all over the files
    ...
    """
    if not isinstance(source, FileStream):
        raise TypeError(f"{_OWNER} needs files that all workers can read: a stream of paths, not of an iterator.")
    if not (OneOf(("auto",)).allows(noise_rate) or Real(0.0, 1.0, open_high=True).allows(noise_rate)):
        raise InputError(f"`noise_rate` must be 'auto' or a number in [0, 1); got {noise_rate!r}.", owner=_OWNER)
    check_argument(_OWNER, "random_state", random_state, Integer(0))
    check_argument(_OWNER, "timeout", timeout, Real(0.0, open_low=True))
    require_pyarrow(_OWNER)
    if source.join is not None:
        raise InputError("labels that come later cannot be audited on a cluster; join them first.", owner=_OWNER)
    n_features = len(source.names) if source.names is not None else _read_width(source)
    size = max(_FEWEST_ROWS, min(_MOST_ROWS, 1 << (_NUMBERS // n_features).bit_length() - 1))
    rows = replace(source, seed=None, batch_rows=size)
    with _making(Path(folder)) as place, connect(client) as connected:
        return _Run(rows, place, Cluster(connected, timeout), noise_rate, random_state).audit()


def _read_width(source: FileStream) -> int:
    """Number of features of rows without names."""
    few = replace(source, seed=None, batch_rows=2, missing="drop")
    return few.batch(few.pieces(0, 0)).X.shape[1]


@contextmanager
def _making(folder: Path) -> Iterator[Path]:
    """Make a folder for results, which must be new or empty; it goes again if there are none."""
    is_new = not folder.exists()
    if not is_new and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a new folder.", owner=_OWNER)
    folder.mkdir(parents=True, exist_ok=True)
    if any(one for one in folder.iterdir() if not one.name.startswith(".nearkin-")):
        raise InputError(f"{folder} is not empty; name a new folder, or remove what is in it.", owner=_OWNER)
    try:
        yield folder.resolve()
    except BaseException:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


class _Run:
    """One audit on a cluster."""

    def __init__(self, rows: FileStream, folder: Path, cluster: Cluster, noise_rate: float | str, seed: int):
        self.rows, self.folder, self.cluster = rows, folder, cluster
        self.noise_rate, self.seed = noise_rate, seed
        n_tasks = -(-rows.n_batches // _BATCHES)
        self.shares: list[Share] = form_shares(rows, 0, 0, n_tasks, _BATCHES)

    def audit(self) -> ClusterAudit:
        """Do all of it."""
        survey = self._survey()
        classes, sizes = _check_classes(survey)
        X, codes = self._draw(classes.tolist(), sizes)
        judge, interval = self._make_jury(X, codes, classes, survey.find_scaling(X.dtype))
        decision, given = judge.decision, not isinstance(self.noise_rate, str)
        decision.noise.interval = interval
        files = SuspectFiles(self.folder, classes, _find_starts(self.rows))
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".nearkin-judged-") as kept:
            cells = self._judge(judge, Path(kept))
            is_suspect = cells.find(decision.noise, rate_is_given=given)
            for number in range(len(self.shares)):
                found = np.load(Path(kept) / f"{number}.npy")
                found = found[is_suspect[cells.number(found["plausibility"], np.ones(len(found), bool), found["code"])]]
                plausibility = agree_with_tiers(found["plausibility"], np.ones(len(found), bool))
                if decision.is_guessing:
                    plausibility = np.maximum(plausibility, 0.5)
                files.write(found, plausibility, call_wrong(np.ones(len(found), bool), plausibility))
                progress.advance("writing suspects", number + 1, len(self.shares))
        notes = () if given else note_rate(decision.noise, cells.outvoted, is_guessing=decision.is_guessing)
        audit = _gather(survey, sizes, judge, files, notes, rate_is_estimated=not given)
        audit.write(self.folder / "audit.json")
        return audit

    def _ask(
        self, what: str, function: Callable[..., dict[str, Any]], *arguments: Any, numbered: bool = True
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield number and result of each share as it comes."""
        tasks = []
        for number, share in enumerate(self.shares):
            first = (number * _BATCHES * self.rows.batch_rows,) if numbered else ()
            work = self.rows.describe(share)
            tasks.append(Task(function, (work, *first, *arguments), name_share(self.rows, share)))
        for done, (number, found) in enumerate(self.cluster.each(tasks, _AHEAD), 1):
            progress.advance(what, done, len(tasks))
            yield number, check_result(found)

    def _survey(self) -> Survey:
        """Look at all rows once: labels, gaps and moments."""
        found = dict(self._ask("reading rows", survey_share, numbered=False))
        whole = Survey()
        for number in range(len(self.shares)):  # in their order, so that sums round alike
            for one in found[number]["found"]:
                whole.add(Survey(**one))
        return whole

    def _draw(self, classes: list[Any], sizes: Index) -> tuple[Array, Codes]:
        """Return the references and their codes: of every class the rows with the lowest keys, in their order."""
        wanted = sizes if sizes.sum() <= MOST_MEMBERS else count_members(sizes)
        # Far more than a class needs but for a chance that nobody will see.
        share = (wanted + 8.0 * np.sqrt(wanted) + 32.0) / sizes
        top = np.iinfo(np.uint64).max
        bounds = np.array([top if one >= 1.0 else int(one * 2.0**64) for one in share], dtype=np.uint64)
        found = dict(self._ask("drawing references", draw_share, self.seed, pack((classes, bounds))))
        parts = [one for number in range(len(self.shares)) for one in found[number]["found"]]
        X, codes, keys = (np.concatenate(some) for some in zip(*parts, strict=True))
        order = np.lexsort((keys, codes))
        drawn = np.bincount(codes, minlength=len(sizes))
        rank = np.arange(len(codes)) - np.repeat(np.cumsum(drawn) - drawn, drawn)
        kept = np.sort(order[rank < wanted[codes[order]]])
        return X[kept], codes[kept]

    def _make_jury(self, X: Array, codes: Codes, classes: Any, scaling: Scaling) -> tuple[Judge, tuple[float, float]]:
        """Let the references judge each other, as an audit of them alone would; return the interval of the rate too."""
        with owned_by(_OWNER):
            check_size(X, len(classes), _OWNER)
            scaled = Rows(X, scaling)
            check_range(scaled, _OWNER, "Is that value right?")
            members = np.ascontiguousarray(narrow(scaled.take(slice(None))))
            with one_blas_thread():
                jury, noise = assemble_jury(members, codes, len(classes), self.noise_rate, random_state=self.seed)
                interval = noise.interval
                given = not isinstance(self.noise_rate, str)
                return Judge(scaling, members, JuryDecision(jury, noise, codes, classes, rate_is_given=given)), interval

    def _judge(self, judge: Judge, kept: Path) -> Cells:
        """Let the workers judge all rows; keep what they doubt in files, and return how many labels each cell holds."""
        data, digest = judge.save()
        with replacing(kept / "jury", None) as file:
            file.write(data)
        cells = Cells(len(judge.decision.classes))
        for number, one in self._ask("judging rows", judge_share, str(kept / "jury"), digest):
            cells.add(one["cells"], one["counts"])
            np.save(kept / f"{number}.npy", one["doubted"])
        return cells


def _check_classes(survey: Survey) -> tuple[Any, Index]:
    """Return the classes and their sizes; refuse labels that cannot be classes, as an audit in memory does."""
    counts = survey.counts
    labels = np.array(list(counts), dtype=object)
    classes = sorted_classes(labels)[0]
    if len(classes) < 2:
        held = f"one class, {classes.tolist()}" if len(classes) else "none"
        raise InputError(f"at least two classes are needed; the files hold {held}.", owner=_OWNER)
    if survey.n_rows > 10 and 2 * len(classes) > survey.n_rows:
        raise InputError(
            f"there are {len(classes):,} different labels in {survey.n_rows:,} rows; is it a class at all? "
            "A label can be judged only by other rows that have it.",
            owner=_OWNER,
        )
    warn_of_lookalikes(labels, "the labels")
    refuse_several(labels, _OWNER)
    return classes, np.array([counts[one] for one in classes.tolist()], dtype=np.int64)


def _find_starts(rows: FileStream) -> list[tuple[str, int]]:
    """Return the files and the number of the first row of each."""
    starts: dict[str, int] = {}
    at = 0
    for unit in rows.units:
        starts.setdefault(unit.path, at)
        at += unit.n_rows
    return list(starts.items())


def _gather(
    survey: Survey, sizes: Index, judge: Judge, files: SuspectFiles, notes: tuple[str, ...], *, rate_is_estimated: bool
) -> ClusterAudit:
    """Return what was found."""
    decision, noise = judge.decision, judge.decision.noise
    names = [one.name for one in decision.jury.voters]
    return ClusterAudit(
        survey.n_rows, survey.n_dropped, judge.rows.shape[1], decision.classes, sizes, len(judge.rows),
        list(zip(names, decision.jury.percents, strict=True)), float(noise.rate), noise.rates, noise.interval,
        rate_is_estimated, files.n_suspects, files.n_wrong, files.count_by_class(), files.list_pairs(),
        {name: one.tolist() for name, one in files.top.items()}, files.paths, notes,
    )  # fmt: skip
