"""Folders and columns of pictures, and embeddings in their place."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import nearkin
from nearkin.cli import main
from nearkin.tables import TableEncoder, open_table

Image = pytest.importorskip("PIL.Image")


def run(*args):
    return CliRunner().invoke(main, [str(one) for one in args])


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Pictures with stripes of two directions in two folders, some of them in the wrong one."""
    folder, rng = tmp_path_factory.mktemp("data") / "photos", np.random.default_rng(0)
    rows = []
    for i in range(60):
        is_flat = i % 2 == 0
        shown = "flat" if is_flat ^ (i in (4, 17)) else "steep"
        wave = np.sin(np.arange(24) * rng.uniform(0.7, 1.0) + rng.uniform(0, 6))
        pixels = np.broadcast_to(wave[:, None] if is_flat else wave[None], (24, 24)) + rng.normal(0, 0.3, (24, 24))
        (folder / shown).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(np.clip(127 + 60 * pixels, 0, 255))).save(folder / shown / f"{i:02d}.png")
        rows.append((f"photos/{shown}/{i:02d}.png", shown, i))
    pd.DataFrame(rows, columns=["file", "kind", "no"]).to_csv(folder.parent / "photos.csv", index=False)
    return folder


def test_a_folder_of_pictures_is_audited(photos, tmp_path):
    done = run("audit", photos, "-o", tmp_path / "p.html")
    assert done.exit_code == 0, done.stderr
    assert "file: pictures, as 11 numbers by edges and colours" in " ".join(done.stdout.split())
    assert {"steep/04.png", "flat/17.png"} <= set(open_table(tmp_path / "p.suspects.csv").values("file"))
    page = (tmp_path / "p.html").read_text()
    assert "data:image/jpeg" in page and '"idName":"file"' in page.replace(" ", "")


def test_pictures_without_folders_have_no_class(photos):
    refused = run("audit", photos / "flat")
    assert refused.exit_code == 2 and "put them into a folder for each class" in refused.stderr


def test_a_column_of_pictures_is_learned_and_predicted(photos, tmp_path):
    data = photos.parent / "photos.csv"
    assert run("fit", data, "--label", "kind", "--image", "file", "-o", tmp_path / "m").exit_code == 0
    done = run("predict", tmp_path / "m", photos, "--label", "class", "-o", tmp_path / "p.csv")
    assert float(done.stderr.split()[1]) > 90, done.stderr
    assert "flat/00.png" in open_table(tmp_path / "p.csv").values("file")
    lost = run("audit", data, "--label", "kind", "--image", "kind", "-o", tmp_path / "no.html")
    assert lost.exit_code == 2 and lost.stderr.count("\n") == 1
    assert not (tmp_path / "no.html").exists()


def test_vectors_take_the_place_of_pictures(photos, tmp_path):
    data = photos.parent / "photos.csv"
    vectors = np.random.default_rng(0).normal(size=(60, 5)) + 3.0 * (np.arange(60) % 2)[:, None]
    np.save(tmp_path / "e.npy", vectors)
    given = ["--label", "kind", "--image", "file", "--embedding", tmp_path / "e.npy"]
    done = run("audit", data, *given, "-o", tmp_path / "p.html")
    assert done.exit_code == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "file: not learned: shown" in told and "embedding: vectors of 5 numbers" in told
    assert run("fit", data, *given, "-o", tmp_path / "m").exit_code == 0
    done = run("predict", tmp_path / "m", data, "--embedding", tmp_path / "e.npy", "-o", tmp_path / "p.csv")
    assert float(done.stderr.split()[1]) > 90
    np.save(tmp_path / "e.npy", vectors[:7])
    assert "7 vectors for the 60 rows" in run("audit", data, *given).stderr


def test_pictures_that_cannot_be_read_count_as_missing(photos, monkeypatch):
    monkeypatch.chdir(photos.parent)
    table = pd.read_csv("photos.csv")[["file"]]
    table.loc[3, "file"] = "no/such.png"
    encoder = TableEncoder(image=["file"]).fit(table)
    assert encoder.columns_[0].told.endswith("1 cannot be read")
    with pytest.warns(UserWarning, match="1 cell is not a picture that can be read"):
        assert np.isfinite(encoder.transform(table)).all()
    with pytest.raises(nearkin.errors.InputError, match="which is not a picture"):
        encoder.transform(pd.DataFrame({"file": ["a.png", "b.png"]}))
