"""The page without a browser: one file, small, with nothing of the data as markup."""

import base64
import hashlib
import json
import re
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

import nearkin
from nearkin.audit.evidence import PrototypeMap
from nearkin.audit.exports import describe_rate
from nearkin.audit.page import _headline, read_source
from nearkin.audit.page.contents import choose_rows, draw_map, pack
from nearkin.audit.page.thumbnails import thumbnails
from nearkin.jury import Votes
from nearkin.jury.jury import CastVotes
from nearkin.noise import NoiseModel
from nearkin.pages import as_json

#: Arrays with one entry for each row of the page.
PER_ROW = ("row", "wrong", "best", "plausibility", "confidence", "toGiven", "toBest")

HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\u202egnp.exe", "\"'`${1}&amp;"]


def data_of(text):
    """What the page holds for its script."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found.group(1))


def arrays_of(data):
    buffer, at, found = zlib.decompress(base64.b64decode(data["packed"]["data"])), 0, {}
    for name, kind, length in data["packed"]["layout"]:
        size = int(kind[1]) * length
        found[name] = np.frombuffer(buffer[at : at + size], dtype=f"<{kind}")
        at += size
    assert at == len(buffer)
    return found


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(240) % 4)
    X = (3 * rng.normal(size=(4, 5)))[y] + rng.normal(size=(240, 5))
    noisy, _ = nearkin.flip_labels(y, 0.15, random_state=0)
    return nearkin.audit_labels(X, np.array(HOSTILE)[noisy], random_state=0)


@pytest.fixture(scope="module")
def page(audit, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    ids = {"name": [f"<b>{i}</b>" for i in range(240)]}
    audit.to_html(path, title="<i>title</i>", ids=ids, texts=["</textarea>" * 50] * 240)
    return path.read_text()


def test_the_page_asks_for_nothing(page):
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)
    assert not re.search(r"@import|url\(\s*[\"']?http", page)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_the_policy_names_the_very_scripts_and_styles_of_the_page(page):
    for tag in ("style", "script"):
        inner = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}" in page or f"{tag}-src 'sha256-{digest}" in page


def test_nothing_of_the_data_becomes_markup(page):
    for text in (*HOSTILE[:2], "<b>1</b>", "<i>title</i>", "</textarea>"):
        assert text not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert data_of(page)["classes"] == sorted(HOSTILE)


def test_the_numbers_in_the_page_are_those_of_the_audit(page, audit):
    data = data_of(page)
    held = arrays_of(data)
    order = audit.order[: audit.n_suspects]
    # Rows of the sample that are not suspects follow the suspects, compared with the best other label.
    asked = [row for row in audit.review_sample().to_review.tolist() if not audit.is_suspect[row]]
    assert held["row"].tolist() == [*order.tolist(), *asked]
    other = audit.evidence(asked[0])
    assert audit.classes[held["best"][len(order)]] == other.suggested.label != other.given_label
    assert held["near"][5 * len(order) :][:5].tolist() == [one.row for one in other.neighbours]
    held = {name: held[name][: len(order)] if name in PER_ROW else held[name] for name in held}
    assert np.abs(held["plausibility"] / data["steps"] - audit.plausibility[order]).max() <= 0.5 / data["steps"] + 1e-9
    assert np.array_equal(audit.classes[held["best"]], audit.suggested_label[order])
    assert np.array_equal(audit.classes[held["codes"]], audit.given_label)
    assert np.abs(held["sure"] / 100 - audit.plausibility).max() <= 0.005 + 1e-9
    first = audit.evidence(int(order[0]))
    assert held["near"][:5].tolist() == [one.row for one in first.neighbours]
    assert data["voters"] == [one.voter for one in first.opinions]
    assert held["voterShare"].tolist() == audit.decision.jury.percents and held["voterShare"].sum() == 100
    near = arrays_of(data_of(page))["near"]
    assert np.array_equal(held["nearDoubt"], audit.is_suspect[near])
    for name, said in (("saidGiven", "for_given"), ("saidBest", "for_suggested")):
        expected = np.array([getattr(one, said) for one in first.opinions])
        assert np.abs(held[name][: len(expected)] / data["steps"] - expected).max() <= 0.5 / data["steps"] + 1e-9
    by = [{name for v, name in enumerate(data["neighbourVoters"]) if bits >> v & 1} for bits in held["nearBy"][:5]]
    assert by == [set(one.voters) for one in first.neighbours]
    assert held["toGiven"][0] == pytest.approx(first.given.distance, rel=1e-6)
    assert held["toBest"][0] == pytest.approx(first.suggested.distance, rel=1e-6)
    assert len(held["mapRow"]) == 240 and (held["mapTier"] > 0).sum() == audit.n_suspects
    assert (held["mapTier"] == 2).sum() == audit.n_wrong and np.array_equal(held["wrong"], audit.is_wrong[order])


def test_an_equal_audit_gives_an_equal_page(audit, page, tmp_path):
    ids = {"name": [f"<b>{i}</b>" for i in range(240)]}
    audit.to_html(tmp_path / "again.html", title="<i>title</i>", ids=ids, texts=["</textarea>" * 50] * 240)
    assert (tmp_path / "again.html").read_text() == page


class GuessedDecision:
    """Votes of nobody about many rows, in the shape of a jury's."""

    def __init__(self, jury, classes, n, rate):
        self.jury, self.classes, self.n, self.rng = jury, classes, n, np.random.default_rng(0)
        self.neighbourhoods, self.noise, self.notes = jury.voters[:2], NoiseModel(rate, len(classes)), ()
        self.copies = None

    def left_out_joint(self, rows, codes):
        return self.rng.dirichlet(np.ones(len(self.classes)), len(rows))

    def left_out_votes(self, rows):
        votes = self.rng.dirichlet(np.ones(len(self.classes)), (len(self.jury.voters), len(rows)))
        return Votes(tuple(one.name for one in self.jury.voters), np.array(self.jury.shares), votes, self.classes)

    def cast_left_out(self, rows, k):
        near, shape = self.rng.integers(0, self.n, (len(rows), k)), (2, len(rows), k)
        return CastVotes(("a", "b"), near, self.rng.random(shape) / 20, self.rng.random(shape) < 0.7)


class Guessed:
    """Stands for the audit of many rows, without the hours of one."""

    def __new__(cls, n, n_classes, rate):
        small_n = 400
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n, 4)), rng.integers(0, n_classes, n)
        y[:n_classes] = np.arange(n_classes)
        model = nearkin.RobustKNeighborsClassifier(noise_rate=rate, random_state=0).fit(X[:small_n], y[:small_n] % 2)
        labels = np.array([f"class {code:05d}" for code in range(n_classes)])[y]
        made = object.__new__(nearkin.LabelAudit)
        made.classifier, made.given_label, made.classes = model, labels, np.unique(labels)
        made.plausibility, made.score = rng.uniform(0.001, 1, n), rng.uniform(size=n)
        made.is_suspect = made.score < np.quantile(made.score, rate)
        made.is_wrong = made.is_suspect & (made.plausibility < 0.5)
        made.given_code = y.astype(np.int64)
        made.suggested_code = np.where(made.is_suspect, (y + rng.integers(1, n_classes, n)) % n_classes, y)
        made.suggested_label, made.confidence = made.classes[made.suggested_code], 1 - made.plausibility
        made.noise_rate, made.noise_interval, made._X = rate, (rate, rate), X
        made.decision = GuessedDecision(model.decision_.jury, made.classes, n, rate)
        made.prototypes = PrototypeMap(X, made.given_code, made.is_suspect)
        made.findings = ()
        return made


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "rate"), [(10, 0.2), (1000, 0.4)])
def test_a_page_of_100_000_rows_is_smaller_than_five_megabytes(tmp_path, n_classes, rate):
    n = 100_000
    rng = np.random.default_rng(1)
    audit = Guessed(n, n_classes, rate)
    ids = {"id": [f"{one:032x}" for one in rng.integers(0, 2**62, n).tolist()]}
    words = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"])
    texts = [" ".join(one) for one in words[rng.integers(0, 8, (n, 30))]]
    audit.to_html(tmp_path / "page.html", ids=ids, texts=texts)
    text = (tmp_path / "page.html").read_text()
    assert (tmp_path / "page.html").stat().st_size < 5_000_000
    assert "Left out of this page" in text and "rows in the map" in text
    assert data_of(text)["suspects"] == min(round(rate * n), 30_000)


def test_pictures_are_small_and_bad_files_are_left_out(tmp_path, audit):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    paths = []
    for i in range(240):
        paths.append(tmp_path / f"{i}.png")
        image.fromarray(rng.integers(0, 255, (200, 300, 3), dtype=np.uint8)).save(paths[-1])
    first = int(audit.order[0])
    paths[first].write_bytes(b"no picture")
    found, unread = thumbnails(paths, [first, *range(240)], 40_000)
    assert unread == [first] and 0 < len(found) < 240
    assert sum(map(len, found.values())) <= 40_000
    audit.to_html(tmp_path / "page.html", images=paths)
    text = (tmp_path / "page.html").read_text()
    assert len(text) < 1_000_000 and "could not be read" in text
    assert all(one.startswith("data:image/jpeg;base64,") for one in data_of(text)["pictures"].values())


def test_json_in_a_page_cannot_end_its_element():
    text = as_json({"a": "</script><!--\u2028&"})
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"a": "</script><!--\u2028&"}
    as_json("\ud800")  # half a character must not fail


def test_packed_arrays_come_back():
    arrays = {"a": np.arange(300, dtype=np.uint16), "b": np.array([1.5], dtype=np.float32), "c": np.empty(0, np.uint8)}
    back = arrays_of({"packed": pack(arrays)})
    for name, values in arrays.items():
        assert np.array_equal(back[name], values)


@pytest.mark.parametrize(("n_classes", "d"), [(2, 1), (2, 5), (3, 1), (8, 3)])
def test_the_map_separates_classes_that_are_apart(n_classes, d, rng, monkeypatch):
    monkeypatch.setattr("nearkin.audit.page.contents._LANDMARKS", 400)
    monkeypatch.setattr("nearkin.audit.page.layout._STEPS", 400)
    codes = np.repeat(np.arange(n_classes), 60)
    rows = 30.0 * np.arange(n_classes)[codes][:, None] + rng.normal(size=(len(codes), d))
    flat = draw_map(rows)
    assert flat.shape == (len(codes), 2) and flat.min() >= 0 and flat.max() <= 1
    centres = np.stack([np.median(flat[codes == one], axis=0) for one in range(n_classes)])
    nearest = ((flat[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == codes).mean() > 0.95


def test_the_map_shows_the_most_doubtful_rows():
    is_suspect = np.zeros(1000, dtype=bool)
    is_suspect[:600] = True
    rows = choose_rows(is_suspect, np.arange(1000), 300)
    assert len(set(rows.tolist())) == 300
    assert sorted(rows[rows < 600].tolist()) == list(range(100))


def test_groups_are_laid_out_apart_and_late_rows_join_their_own(rng, monkeypatch):
    monkeypatch.setattr("nearkin.audit.page.layout._STEPS", 400)
    codes = rng.integers(0, 5, 1500)
    rows = 8.0 * rng.normal(size=(5, 10))[codes] + rng.normal(size=(1500, 10))
    flat = draw_map(rows)
    centers = np.stack([np.median(flat[codes == code], axis=0) for code in range(5)])
    nearest = ((flat[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == codes).mean() > 0.99
    assert np.array_equal(flat, draw_map(rows))


@pytest.mark.parametrize(
    "rows", [np.ones((10, 3)), np.repeat(np.eye(3), 2, axis=0), np.arange(8.0)[:, None], np.eye(2)]
)
def test_few_or_equal_rows_are_laid_out_too(rows):
    flat = draw_map(rows)
    assert ((flat >= 0) & (flat <= 1)).all()


@pytest.mark.parametrize("label", ["a\x1b[31m", "\u202eb", "c\ud800", "d\x00e", "f\ng", "=1+1", "h" * 300_000])
def test_any_label_id_and_name_of_a_column_can_be_written(label, tmp_path, rng):
    y = np.arange(60) % 2
    X = 4.0 * y[:, None] + rng.normal(size=(60, 2))
    audit = nearkin.audit_labels(X, [label if one else "plain" for one in y], random_state=0)
    audit.to_html(
        tmp_path / "page.html", title=label, ids={label: [f"{i}{label}"[:50] for i in range(60)]}, notes={label: label}
    )
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\ud800-\udfff]", text.split('id="data">')[0])
    assert len(text) < 200_000
    assert all(line.isprintable() for line in str(audit.evidence(0)).splitlines())
    assert all(value.isprintable() for _, value in audit.summary())
    audit.to_json(tmp_path / "audit.json")
    assert set(json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))["classes"]) == {label, "plain"}
    if "\ud800" in label:
        with pytest.raises(ValueError, match=r"holds \\ud800, half a character"):
            audit.to_csv(tmp_path / "audit.csv")
        assert not (tmp_path / "audit.csv").exists()


@pytest.mark.parametrize(
    ("rate", "n_wrong", "n_look", "words"),
    [
        (0.0, 0, 0, "No sign of wrong labels"),
        (0.0, 0, 1, "Only 1 label is worth a look"),
        (0.0, 0, 48, "Only 48 labels are worth a look"),
        (0.0004, 1, 0, "1 label looks wrong"),
        (0.0004, 2, 3, "2 labels look wrong"),
        (0.08, 0, 5, "Perhaps 8.0 % are wrong, none clearly so"),
        (0.08, 3, 5, "Perhaps 8.0 % are wrong, or none"),
        (0.123, 3, 5, "Perhaps 12 % are wrong, or none"),
    ],
)
def test_the_headline_agrees_with_the_suspects_below_it(rate, n_wrong, n_look, words):
    audit = SimpleNamespace(
        rate_is_estimated=True, noise_rate=rate, noise_interval=(0.0, 0.2), n_wrong=n_wrong,
        n_suspects=n_wrong + n_look, decision=SimpleNamespace(is_guessing=False),
    )  # fmt: skip
    assert " ".join(" ".join(_headline(audit)["words"]).split()) == words
    assert ("No sign" in words) == (audit.n_suspects == 0)
    told = describe_rate(audit)
    assert told.endswith("perhaps none") and ("0.0 %" not in told or "at most" in told)
    audit.noise_interval = (0.01, 0.2)
    if rate > 0.01 and n_wrong:
        assert " ".join(_headline(audit)["words"]).endswith("of labels look wrong")
    audit.decision.is_guessing = True
    assert "cannot tell" in _headline(audit)["words"]


def read_texts(path):
    data = data_of(path.read_text())
    held = json.loads(zlib.decompress(base64.b64decode(data["texts"])))
    return data, {int(row): text for row, text in held.items()}


def test_texts_are_whole_while_there_is_room_and_the_end_of_the_page_says_what_is_cut(audit, tmp_path):
    rng = np.random.default_rng(0)
    words = np.array([f"{one:06x}" for one in rng.integers(1 << 24, size=50_000)])
    for n_words, is_whole in ((100, True), (250, True), (3000, False)):
        texts = [" ".join(rng.choice(words, n_words)) for _ in range(240)]
        audit.to_html(tmp_path / "page.html", texts=texts)
        data, held = read_texts(tmp_path / "page.html")
        asked = {*data["sample"]["row"], *audit.order[: audit.n_suspects].tolist()}
        assert asked <= held.keys() and len(data["texts"]) <= 600_000
        assert all(held[row] == texts[row] for row in asked) == is_whole
        assert is_whole or min(len(held[row]) for row in asked) >= 500
        assert is_whole or {len(held[row]) for row in data["sample"]["row"]} == {4000}
        assert "what is longer than" in (tmp_path / "page.html").read_text()


def test_a_page_knows_its_data(audit, tmp_path):
    (tmp_path / 'a"],b.csv').write_text("x")
    audit.to_html(tmp_path / "page.html", source=tmp_path / 'a"],b.csv', notes={"Label": "<i>y"})
    assert read_source(tmp_path / "page.html") == ('a"],b.csv', "<i>y")
    audit.to_html(tmp_path / "page.html")
    assert read_source(tmp_path / "page.html") == (None, None)
    (tmp_path / "other.html").write_text('"source":[')
    assert read_source(tmp_path / "other.html") is None
