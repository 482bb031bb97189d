"""The page about networks runs as printed."""

import pytest

pytest.importorskip("torch", reason="pip install 'nearkin[deep]'")
pytest.importorskip("safetensors", reason="pip install 'nearkin[deep]'")

from test_examples import ROOT, python_blocks, run


@pytest.mark.slow
def test_page_runs_as_printed(tmp_path):
    script = tmp_path / "deep_blocks.py"
    script.write_text(python_blocks(ROOT / "docs" / "deep.md"), encoding="utf-8")
    printed = run(script, tmp_path).splitlines()
    assert printed[-1] == "True"
    assert float(printed[2].split()[-1]) > 0.9  # accuracy with two labels in five wrong
