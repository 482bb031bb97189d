"""An audit in a notebook, its page on request, and the file that keeps it."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import nearkin
from nearkin import progress
from nearkin.audit import notebook
from nearkin.audit.label_audit import LabelAudit

EVIL = ["<script>alert(1)</script>", "a&b", "\x1b[2Jc"]


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(150) % 3)
    X = pd.DataFrame((2.0 * rng.normal(size=(3, 3)))[y] + rng.normal(size=(150, 3)), columns=["<b>x", "y", "z"])
    X.index = X.index + 1000
    given, _ = nearkin.flip_labels(y, 0.2, random_state=0)
    return nearkin.audit_labels(X, np.array(EVIL)[given], random_state=0)


@pytest.fixture
def in_a_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)))


def test_the_summary_shows_the_first_suspects_as_text(audit):
    held = audit._repr_html_()
    assert "<script>" not in held and "\x1b" not in held and "<b>x" not in held
    assert "&lt;script&gt;" in held and "a&amp;b" in held
    assert held.count("<tr>") == 1 + min(10, audit.n_suspects)
    for row in audit.order[:10]:
        assert f"<tr><td>{row}</td>" in held
    assert "<th>plausibility</th><th>confidence</th>" in held
    assert "<td>1.00</td>" not in held and "<td>0.00</td>" not in held  # as in the page, nothing is certain
    assert f"and {audit.n_suspects - 10:,} more" in held


def test_a_summary_without_suspects(rng):
    y = np.arange(90) % 3
    found = nearkin.audit_labels(rng.normal(size=(90, 3)) + 100.0 * y[:, None], y, random_state=0)
    assert found.n_suspects == 0 and "<table>" not in found._repr_html_()


def test_show_opens_a_browser_and_a_notebook_holds_the_page_itself(audit, monkeypatch, tmp_path, request):
    opened = []
    monkeypatch.setattr(notebook.webbrowser, "open", opened.append)
    shown = audit.show(title="T<itle")
    assert opened == [shown.path.as_uri()] and shown.path.read_text("utf-8").startswith("<!doctype html>")
    request.getfixturevalue("in_a_notebook")
    shown = audit.show(tmp_path / "page.html")
    assert len(opened) == 1 and shown.path == tmp_path / "page.html"
    held = shown._repr_html_()
    assert held.startswith("<iframe srcdoc=") and held.count("<") == 2  # the page is an attribute


def test_work_that_takes_long_shows_a_bar_in_a_notebook_by_itself(audit, monkeypatch, capsys, request):
    X, y = audit._X, audit.given_label
    monkeypatch.setattr("nearkin.bars._PATIENCE", 0.0)
    nearkin.audit_labels(X, y, random_state=0)
    assert capsys.readouterr().err == ""
    request.getfixturevalue("in_a_notebook")
    nearkin.audit_labels(X, y, random_state=0)
    said = capsys.readouterr().err
    assert "judging 150 rows" in said and said.count("judging 150 rows: 100%") <= 2


def test_one_task_from_the_rows_to_the_page_that_only_goes_forward(audit, tmp_path):
    from nearkin.jury.cost import announce_cost, estimate_page_seconds, estimate_seconds

    heard, steps = [], []

    def listen(task, done, total):
        heard.append((task, done / total))
        steps.append(progress.current_step())

    with progress.listening(listen), announce_cost(150, 3, 3, with_page=True):
        nearkin.audit_labels(audit._X, audit.given_label, random_state=0).to_html(tmp_path / "page.html")
    assert len({task for task, _ in heard}) == 1
    shares = [share for _, share in heard]
    assert shares == sorted(shares) and shares[-1] == 1.0
    named = list(dict.fromkeys(one for one in steps if one))
    assert named == [*estimate_seconds(150, 3, 3), *estimate_page_seconds(150, 3)]
    with progress.listening(listen):
        heard.clear()
        audit.to_html(tmp_path / "page.html")
    assert {task for task, _ in heard} == {"making the page"}


# ---------------------------------------------------------------------- files


def test_an_audit_comes_back_from_its_file(audit, tmp_path):
    assert len(audit.findings) >= 0 and audit.contrast  # what is computed on demand is not in the file
    nearkin.save(audit, tmp_path / "a.nearkin")
    found = nearkin.load(tmp_path / "a.nearkin")
    assert isinstance(found, LabelAudit) and repr(found) == repr(audit)
    assert str(found.evidence(3)) == str(audit.evidence(3)) and found.fingerprint == audit.fingerprint
    for one, name in ((audit, "a"), (found, "b")):
        one.to_html(tmp_path / f"{name}.html")
        one.to_csv(tmp_path / f"{name}.csv")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert audit.to_frame().index[0] == 1000 and found.to_frame().index[0] == 0
    frame = pd.DataFrame(audit._X, columns=audit.classifier.feature_names_in_)
    np.testing.assert_array_equal(found.classifier.predict(frame), audit.classifier.predict(frame))


def test_an_audit_replaces_only_an_audit(audit, tmp_path):
    nearkin.save(nearkin.RobustLODML(), tmp_path / "model.nearkin")
    with pytest.raises(ValueError, match="is not a nearkin audit but a nearkin model"):
        nearkin.save(audit, tmp_path / "model.nearkin")
    nearkin.save(audit, tmp_path / "a.nearkin")
    nearkin.save(audit, tmp_path / "a.nearkin")
    auditor = nearkin.LabelAuditor(random_state=0).fit(pd.DataFrame(audit._X, columns=list("abc")), audit.given_label)
    with pytest.raises(ValueError, match="is not a nearkin auditor but a nearkin audit"):
        nearkin.save(auditor, tmp_path / "a.nearkin")
    nearkin.save(auditor, tmp_path / "auditor.nearkin")
    assert repr(nearkin.load(tmp_path / "auditor.nearkin").audit_) == repr(auditor.audit_)
    with pytest.raises(TypeError, match="a classifier or an audit"):
        nearkin.save(audit.decision, tmp_path / "x.nearkin")
