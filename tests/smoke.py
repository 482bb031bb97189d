"""What an installed nearkin must do without the checkout, its tests or any optional part; run as a plain script."""

import re
import subprocess
import sys
import tempfile
from importlib.metadata import metadata
from pathlib import Path


def main() -> None:
    """Import, learn, judge, save, load, and run the commands that need no file of the user."""
    import numpy as np
    from sklearn.datasets import load_wine

    import nearkin

    home = Path(nearkin.__file__)
    assert Path(sys.prefix) in home.parents, f"nearkin comes from {home}, not from {sys.prefix}"
    assert (home.parent / "py.typed").exists()
    shown = str(metadata("nearkin")["Description"] or metadata("nearkin").get_payload())
    targets = re.findall(r"\]\(([^)]+)\)", shown)
    assert len(targets) > 30
    assert all(one.startswith(("https://", "#")) for one in targets), "some links of the README lead nowhere"
    X, y = load_wine(return_X_y=True)
    noisy, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)
    audit = nearkin.audit_labels(X, noisy, random_state=0)
    assert is_wrong[audit.order[:20]].mean() > 0.8
    model = nearkin.RobustKNeighborsClassifier(n_neighbors=3, random_state=0).fit(X, noisy)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nearkin.save(model, folder / "wine.nearkin")
        again = nearkin.load(folder / "wine.nearkin")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        audit.to_html(folder / "audit.html")
        assert (folder / "audit.html").stat().st_size > 50_000
        header = ",".join([*(f"f{i}" for i in range(13)), "kind"])
        np.savetxt(folder / "wine.csv", np.column_stack([X, noisy]), delimiter=",", header=header, comments="")
        program = str(Path(sys.executable).with_name("nearkin"))
        for command in (
            ["--version", "-v"], ["datasets"], ["demo"],
            ["audit", "wine.csv", "--label", "kind", "-o", "page.html"],
            ["fit", "wine.csv", "--label", "kind", "-o", "model.nearkin"],
            ["predict", "model.nearkin", "wine.csv", "-o", "said.csv"],
        ):  # fmt: skip
            done = subprocess.run([program, *command], cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"nearkin {' '.join(command)}: {done.stdout}{done.stderr}"
        assert {"page.html", "model.nearkin", "said.csv"} <= {one.name for one in folder.iterdir()}
    print(f"nearkin {nearkin.__version__} works from {home.parent}")


if __name__ == "__main__":
    main()
