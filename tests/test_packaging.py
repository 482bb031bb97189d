"""What the package says about itself agrees everywhere, and what needs an optional part says which extra brings it."""

import importlib
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import nearkin
from each import each
from nearkin.cli import main

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def texts():
    """Pages and sources, with their names."""
    found = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
    ]
    return {str(one.relative_to(ROOT)): one.read_text() for one in found if one != Path(__file__)}


def test_versions_of_python_agree():
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert PROJECT["requires-python"] == f">={named[0]}"
    readme = (ROOT / "README.md").read_text()
    assert f"![Python {', '.join(named)}]" in readme
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert f"python: {named!s}".replace("'", '"') in workflow


def test_the_badge_of_scikit_learn_is_the_lower_bound():
    bound = next(one for one in PROJECT["dependencies"] if one.startswith("scikit-learn")).partition(">=")[2]
    assert f"![scikit-learn {bound} or newer]" in (ROOT / "README.md").read_text()


def test_every_figure_of_the_front_page_stands_in_its_record():
    part = (ROOT / "README.md").read_text().split("## How good it is")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| ([^|]*\d[^|]*) \| (?:the same|\[\w+\]\((.+?)\)) \|$", part, re.MULTILINE)
    assert len(rows) >= 13
    record = ""
    for what, found, path in rows:
        record = (ROOT / path).read_text() if path else record
        for figure in re.split(r"; | against ", found.strip()):
            assert figure.lstrip("+") in record, f"{what}: {figure} is not in {path or 'the record above'}"


def test_every_make_target_that_pages_and_workflows_name_exists():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = set()
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / ".github").rglob("*.*"),
        ROOT / ".ci" / "run",
    ):
        for line in re.findall(r"(?:`|run: |^)make ((?:[a-z-]+ ?)+)", path.read_text(), re.MULTILINE):
            named |= {(path.name, one) for one in line.split()}
    assert {"test-oldest", "dist", "docs", "coverage"} <= {one for _, one in named}
    assert sorted(one for one in named if one[1] not in targets) == []


def test_the_citation_names_this_version():
    version = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert version[1] == nearkin.__version__


def test_every_install_line_names_an_extra_that_exists_in_the_same_way():
    named, other = set(), []
    for name, text in texts().items():
        named |= {(name, one) for group in re.findall(r"'nearkin\[([\w,]+)\]'", text) for one in group.split(",")}
        other += [f"{name}: {one}" for one in re.findall(r"'\.\[[\w,]+\]'", text)]
    assert not other, "write pip install 'nearkin[extra]', which also works where nearkin is installed from a checkout"
    assert {one for _, one in named} <= EXTRAS.keys()
    assert {"arrow", "excel", "images", "deep", "faiss", "onnx", "river", "dask"} <= {one for _, one in named}


def test_a_report_of_the_installation_names_what_a_bug_report_needs():
    shown = CliRunner().invoke(main, ["--version", "-v"])
    assert shown.exit_code == 0
    for words in (
        nearkin.__version__,
        f"Python         CPython {sys.version.split()[0]}",
        np.__version__,
        "scikit-learn",
        "cores",
    ):
        assert words in shown.stdout
    assert CliRunner().invoke(main, ["--version"]).stdout == f"nearkin {nearkin.__version__}\n"
    assert str(Path.home()) not in shown.stdout


# ---------------------------------------------------------------------------------- doors of optional parts


def read_parquet(folder):
    (folder / "a.parquet").write_bytes(b"PAR1")
    return ["audit", str(folder / "a.parquet"), "--label", "y"]


def read_excel(folder):
    (folder / "a.xlsx").write_bytes(b"PK")
    return ["audit", str(folder / "a.xlsx"), "--label", "y"]


def read_pictures(folder):
    for kind in "ab":
        (folder / kind).mkdir()
        (folder / kind / "1.png").write_bytes(b"\x89PNG")
    return ["audit", str(folder)]


def draw_figures(folder):
    return ["reproduce", "figures", "--out", str(folder)]


DOORS = {
    "pyarrow": (read_parquet, "arrow"),
    "openpyxl": (read_excel, "excel"),
    "PIL": (read_pictures, "images"),
    "matplotlib": (draw_figures, "paper"),
}


@each(module=list(DOORS))
def test_a_command_without_an_optional_part_says_which_extra_brings_it(module, monkeypatch, tmp_path):
    make, extra = DOORS[module]
    monkeypatch.setitem(sys.modules, module, None)
    if module == "matplotlib":
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    shown = CliRunner().invoke(main, make(tmp_path))
    assert shown.exit_code == 2, shown.stdout
    assert f"pip install 'nearkin[{extra}]'" in shown.stderr
    assert shown.stderr.count("\n") == 1


ROOMS = {"nearkin.river": ("river", "river"), "nearkin.deep": ("torch", "deep")}


@each(room=list(ROOMS))
def test_a_room_without_its_part_says_which_extra_brings_it(room, monkeypatch):
    module, extra = ROOMS[room]
    for name in [one for one in sys.modules if one == room or one.startswith(f"{room}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=re.escape(f"pip install 'nearkin[{extra}]'")):
        importlib.import_module(room)


def test_an_engine_an_export_a_cluster_and_a_device_say_which_extra_brings_them(monkeypatch, tmp_path, rng):
    for name in ("faiss", "onnx", "distributed", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    from nearkin import distributed, search

    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    learner = nearkin.RobustLODML(random_state=0).fit(X, y)
    doors = {
        "faiss": lambda: search.Index(learner, engine="faiss").fit(X),
        "onnx": lambda: search.write_onnx(learner, tmp_path / "a.onnx"),
        "dask": lambda: distributed.connect("local:1").__enter__(),
        "gpu": lambda: nearkin.RobustLODML(device="cuda").fit(X, y),
    }
    for extra, door in doors.items():
        with pytest.raises((ImportError, RuntimeError), match=re.escape(f"pip install 'nearkin[{extra}]'")):
            door()


@pytest.mark.parametrize(
    ("name", "home"),
    [("DeepMetric", "deep"), ("Transformer", "river"), ("compare", "audit"), ("ClusterAudit", "distributed")],
)
def test_a_name_of_a_submodule_is_found_by_the_message(name, home):
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; it lives in nearkin\.{home}\.{name}$"):
        getattr(nearkin, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'DeepMetrik'$"):
        nearkin.DeepMetrik  # noqa: B018
