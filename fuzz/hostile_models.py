"""Model files made by hand to do harm: refused with the reason, soon, in little memory, and nothing in them runs."""

from __future__ import annotations

import copy
import importlib
import io
import json
import os
import re
import shutil
import socket
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import nearkin
from fuzz import data, models, seeds
from fuzz.child import call, command, command_problem
from fuzz.report import Report
from nearkin import saving
from nearkin.archives import sealing

WEIGHT = 1.0
#: What a file may cost that is refused: seconds, and bytes beyond what the process already has.
SECONDS, MEMORY = 5.0, 1 << 28
#: Commands that read a model, an adapter or a checkpoint.
WAYS = (
    "info {path}",
    "predict {path} {good}",
    "fit {good} --label y --stream --voters 0 -o {out}/m --checkpoint {path} --resume",
    "adapt --start {path} --queries {good} --items {good} --feedback {good} -o {out}/a",
)


def run(seconds: float, seed: int, report: Report) -> None:
    """Try every file once, in an order drawn by the seed."""
    known = [name for names in seeds.model_names().values() for name in names]
    attacks = [
        *((name, try_file) for name in FILES),
        *((name, try_forged) for name in FORGED if FORGED[name][0] in known),
    ]
    order = np.random.default_rng(seed).permutation(len(attacks))
    for case in report.cases(seconds, seed, limit=len(attacks)):
        name, attack = attacks[order[case.number]]
        problem = attack(name, case.folder)
        group = "files made by hand" if attack is try_file else "forged states"
        report.count(case, group, problem and f"{name}: {problem}")


def try_file(name: str, folder: Path) -> str | None:
    """Return what a file does that it must not do, to `nearkin.load` or to the command line."""
    inside = folder / "in"
    inside.mkdir()
    (folder / "evil.npy").write_bytes(b"foreign")
    path = inside / "model.nearkin"
    FILES[name](path)
    deep = seeds.HAS_DEEP and ("safetensors" in name or "a " in name)
    if deep:
        _deep()  # a child with little memory cannot import torch
    problem = models.problem_of(call(_load, path, False, seconds=SECONDS, memory=MEMORY))
    problem = problem or (deep and models.problem_of(call(_load, path, True, seconds=SECONDS, memory=MEMORY))) or None
    problem = problem or next((one for way in WAYS if (one := _try_command(way, path))), None)
    return problem or _side_effects(folder)


def _try_command(way: str, path: Path) -> str | None:
    """Return what a command does with the file that it must not do."""
    good = data.models() / "data.csv"
    out = path.parent.parent / "out"
    out.mkdir(exist_ok=True)
    args = [word.format(path=path, good=good, out=out) for word in way.split()]
    found = command(*args, folder=out, seconds=SECONDS, memory=MEMORY)
    shutil.rmtree(out)
    problem = command_problem(found, path.name, "/dev/zero")  # the link, or where it leads
    if problem is None and found.code == 0 and "--resume" not in way:
        problem = "it was accepted"
    return problem and f"[{' '.join(args[:1])}] {problem}"


def try_forged(name: str, folder: Path) -> str | None:
    """Return what a state does that the library would never write; the file's checksums are right."""
    base, change = FORGED[name]
    one = models.warm(base)
    tree, arrays = saving.to_tree(one.value)
    forged = change(copy.deepcopy(tree), arrays)
    path = folder / "model.nearkin"
    with mock.patch.object(saving, "to_tree", lambda _: forged):
        one.write(one.value, path)
    return models.problem_of(call(models.attack, one, path, True))


def _load(path: Path, deep: bool) -> int:
    """Load; a file made by hand is never a model."""
    warnings.simplefilter("ignore")
    return models.refusal(_deep().load if deep else nearkin.load, path, (ValueError, OSError))[1]


def _deep() -> Any:
    return importlib.import_module("nearkin.deep")


def _side_effects(folder: Path) -> str | None:
    """Return what a file has done beside being read."""
    found = sorted(str(one.relative_to(folder)) for one in folder.rglob("*"))
    if found != ["evil.npy", "in", "in/model.nearkin"]:
        return f"files appeared: {found}"
    return None if (folder / "evil.npy").read_bytes() == b"foreign" else "a foreign file was changed"


# ---------------------------------------------------------------------------------- files

HEADER = {"kind": "nearkin-model", "format": saving.FORMAT, "nearkin": nearkin.__version__}
GOOD = {"$class": "learners.ODML", "state": {}}


def archive(
    members: dict[str, bytes | str | int], compression: int = zipfile.ZIP_STORED, **header: Any
) -> Callable[[Path], None]:
    """Return a writer of an archive with a header and a digest of ours and any members; a number is that many zeros."""

    def write(path: Path) -> None:
        with warnings.catch_warnings(action="ignore"), path.open("wb") as raw, sealing(raw, compression) as file:
            if "model.json" not in members:
                file.writestr("model.json", json.dumps({**HEADER, "model": GOOD, **header}))
            for name, content in members.items():
                if isinstance(content, int):
                    with file.open(name, "w", force_zip64=True) as member:
                        for _ in range(content >> 20):
                            member.write(bytes(1 << 20))
                else:
                    file.writestr(name, content)

    return write


def raw(content: bytes) -> Callable[[Path], None]:
    """Return a writer of some bytes."""
    return lambda path: _ignore(path.write_bytes(content))


def npy(header: str | bytes, body: bytes = b"", size: int | None = None, version: bytes = b"\x01\x00") -> bytes:
    """Return an npy file with any header."""
    text = header.encode() if isinstance(header, str) else header
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text) if size is None else size)
    return b"\x93NUMPY" + version + length + text + body


def pickled(mark: str) -> bytes:
    """Return an npy file whose object, once unpickled, makes a file."""

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (Path(mark),)

    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([Bomb()], dtype=object), allow_pickle=True)
    return file.getvalue()


def lying_sizes(path: Path) -> None:
    """Write an archive whose directory declares members of 4 GB."""
    archive({"0.npy": b"x" * 100})(path)
    content = bytearray(path.read_bytes())
    for at in [i for i in range(len(content) - 4) if content[i : i + 4] == b"PK\x01\x02"]:
        content[at + 20 : at + 28] = struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)
    path.write_bytes(bytes(content))


def encrypted(path: Path) -> None:
    """Write an archive whose members claim to be encrypted."""
    archive({})(path)
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        content[content.index(mark) + at] |= 1
    path.write_bytes(bytes(content))


def safetensors(header: bytes, body: bytes = b"", size: int | None = None) -> Callable[[Path], None]:
    """Return a writer of a safetensors file with any header."""
    return raw(struct.pack("<Q", len(header) if size is None else size) + header + body)


def bind(path: Path) -> None:
    """Leave a socket at the path."""
    folder = os.open(path.parent, os.O_RDONLY)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def _ignore(_: object) -> None:
    return None


def _tensor(shape: list[int], begin: int, end: int) -> Callable[[Path], None]:
    ours = json.dumps(
        {"kind": "nearkin-deep-model", "format": 1, "nearkin": "0", "names": ["a"], "own": None, "model": {}}
    )
    entry = {"dtype": "F64", "shape": shape, "data_offsets": [begin, end]}
    return safetensors(json.dumps({"__metadata__": {"nearkin": ours}, "a": entry}).encode(), bytes(64))


DESCR = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }"
ARRAY = {"$array": "0"}
BEGIN = json.dumps(HEADER)[:-1] + ', "model": '
DEEP = "[" * 100_000 + "]" * 100_000
FILES: dict[str, Callable[[Path], None]] = {
    "nothing": raw(b""),
    "text": raw(b"hello, world\n" * 100),
    "a pickle": raw(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\ntouch evil2\x85R."),
    "a pipe": lambda path: os.mkfifo(path),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a folder": lambda path: path.mkdir(),
    "a socket": bind,
    "deflated zeros": archive({"0.npy": 600_000_000}, zipfile.ZIP_DEFLATED),
    "deflated header": archive({"model.json": 600_000_000}, zipfile.ZIP_DEFLATED),
    "members nobody names": archive({f"{i}.npy": npy(DESCR % "(100,)", bytes(800)) for i in range(5000)}),
    "traversal": archive({"../evil.npy": npy(DESCR % "()", bytes(8)), "../../evil2.npy": b"x"}),
    "absolute path": archive({"/tmp/nearkin-evil.npy": npy(DESCR % "()", bytes(8))}),
    "two headers": archive({"model.json": json.dumps({**HEADER, "model": GOOD}), "MODEL.JSON": "{}"}),
    "deep JSON": archive({"model.json": DEEP}),
    "deep tree": archive({"model.json": BEGIN + DEEP + "}"}),
    "deep objects": archive({"model.json": BEGIN + '{"$list":[' * 50_000 + "]}" * 50_000 + "}"}),
    "a number of a million digits": archive({"model.json": BEGIN + "9" * 10**6 + "}"}),
    "JSON of another kind": archive({"model.json": "[1, 2, 3]"}),
    "JSON in UTF-16": archive({"model.json": json.dumps({**HEADER, "model": GOOD}).encode("utf-16")}),
    "format of the future": archive({}, format=10**9),
    "format true": archive({}, format=True),
    "format as text": archive({}, format="1"),
    "negative format": archive({}, format=-1),
    "a class of the system": archive({}, model={"$class": "os.system", "state": {"x": "touch evil2"}}),
    "a class of another room": archive({}, model={"$class": "cli.main", "state": {}}),
    "a class by its path": archive({}, model={"$class": "..learners.ODML", "state": {}}),
    "no state": archive({}, model={"$class": "learners.ODML"}),
    "a dtype that holds objects": archive({}, model={"$dtype": "O"}),
    "a shape of 10^12": archive({"0.npy": npy(DESCR % "(1000000, 1000000)", bytes(64))}, model=ARRAY),
    "a negative shape": archive({"0.npy": npy(DESCR % "(-1, 8)", bytes(64))}, model=ARRAY),
    "a shape that overflows": archive({"0.npy": npy(DESCR % f"({2**62}, 8)", bytes(64))}, model=ARRAY),
    "an array header of 4 GB": archive({"0.npy": npy("{}", b"", 2**32 - 1, b"\x02\x00")}, model=ARRAY),
    "an array header of brackets": archive({"0.npy": npy("(" * 9000)}, model=ARRAY),
    "an array header with code": archive({"0.npy": npy("__import__('os').system('touch evil2')")}, model=ARRAY),
    "objects of 10^9": archive({}, model={"$objects": [], "shape": [10**9]}),
    "a pickle in an array": archive({"0.npy": pickled("evil2.npy")}, model=ARRAY),
    "sizes that lie": lying_sizes,
    "claims to be encrypted": encrypted,
    "a member per byte": archive({f"x{i}": b"" for i in range(30_000)}),
    "safetensors, header of 2^63": safetensors(b"{}", size=2**63),
    "safetensors, header of 20 MB": safetensors(b" " * 20_000_000 + b"{}"),
    "safetensors, deep header": safetensors(DEEP.encode()),
    "safetensors, overflowing shape": _tensor([2**62, 8], 0, 64),
    "safetensors, past the end": _tensor([10**9], 0, 8 * 10**9),
    "safetensors, backwards": _tensor([8], 64, 0),
    "safetensors, no model": _tensor([8], 0, 64),
}  # fmt: skip


# ---------------------------------------------------------------------------------- forged states


def _everywhere(tree: Any, key: str, value: Any) -> Any:
    """Replace what a key leads to, wherever it stands in a tree; keys of saved dictionaries are pairs."""
    if isinstance(tree, list):
        if len(tree) == 2 and tree[0] == key:
            tree[1] = value
        for one in tree:
            _everywhere(one, key, value)
    elif isinstance(tree, dict):
        for name, one in tree.items():
            if name == key:
                tree[name] = value
            else:
                _everywhere(one, key, value)
    return tree


def put(key: str, value: Any) -> Callable[[Any, list[np.ndarray]], tuple[Any, list[np.ndarray]]]:
    """Return a change of one value of the tree."""
    return lambda tree, arrays: (_everywhere(tree, key, value), arrays)


def reshape(shape: tuple[int, ...]) -> Callable[[Any, list[np.ndarray]], tuple[Any, list[np.ndarray]]]:
    """Return a change of all arrays to another shape."""
    return lambda tree, arrays: (tree, [np.zeros(shape, dtype=one.dtype) for one in arrays])


def small_moments(tree: Any, arrays: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    """Give the moments of the optimiser another shape than the weights have."""
    moments = {int(one) for one in re.findall(r'exp_avg\w*", {"\$array": "(\d+)"', json.dumps(tree))}
    return tree, [np.zeros(3, one.dtype) if i in moments else one for i, one in enumerate(arrays)]


FORGED: dict[str, tuple[str, Callable[..., tuple[Any, list[np.ndarray]]]]] = {
    "MT19937 beyond its state": ("drawn", put("pos", 2147483643)),
    "MT19937 before its state": ("drawn", put("pos", -5)),
    "Philox beyond its buffer": ("philox", put("buffer_pos", 2147483643)),
    "another generator": ("philox", put("bit_generator", "MT19937")),
    "an unknown generator": ("philox", put("bit_generator", "os")),
    "legacy state beyond": ("legacy", put("pos", 2147483643)),
    "a checkpoint of a million batches": ("checkpoint", put("batch", 10**6)),
    "a checkpoint of epoch -1": ("checkpoint", put("epoch", -1)),
    "a checkpoint without a learner": ("checkpoint", put("learner", None)),
    "a checkpoint watched by a text": ("checkpoint", put("watch", "nobody")),
    "a network of empty arrays": ("deep metric", reshape((0,))),
    "a network of one number each": ("oahu", reshape((1,))),
    "Adam moments of another shape": ("deep metric", small_moments),
    "a jury of empty arrays": ("jury", reshape((0,))),
    "a jury of columns": ("jury", reshape((3, 1))),
    "an audit of empty arrays": ("audit", reshape((0, 4))),
    "an adapter of one number": ("adapter", reshape((1, 1))),
}  # fmt: skip
