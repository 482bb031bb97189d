"""How Sphinx builds these pages: ``make docs``. Nothing is fetched, neither while building nor while reading."""

from __future__ import annotations

import os
import sys
from importlib.metadata import files
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.fileutil import copy_asset_file
from sphinx_gallery.sorting import ExplicitOrder

import nearkin

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # for gallery_order and check_pages

project = "nearkin"
author = "The nearkin developers"
copyright = author
version = release = nearkin.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_templates", "auto_examples/**/*.ipynb", "auto_examples/**/*.py", "auto_examples/**/*.md5"]
templates_path = ["_templates"]
default_role = "py:obj"  # names in single backticks become links where the reference has them
nitpicky = False
highlight_language = "none"  # blocks that name no language are commands, or what they print

# ------------------------------------------------------------------ reference

#: Optional parts: their pages are built without them.
autodoc_mock_imports = ["torch", "safetensors", "pytorch_metric_learning", "triton", "dask", "distributed", "river"]
autodoc_typehints = "none"  # docstrings say what a type means
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True

#: Members that every estimator inherits from scikit-learn, which documents them.
FOREIGN = ("sklearn.", "builtins", "torch.", "collections", "typing")


def skip_foreign(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members that other packages define."""
    home = getattr(getattr(member, "fget", member), "__module__", None) or ""
    routing = name.endswith("_request") or name == "get_metadata_routing"
    return True if routing or home.startswith(FOREIGN) else None


# ------------------------------------------------------------------ markdown, formulas

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"options": {"enableMenu": False}, "chtml": {"displayAlign": "left", "displayIndent": "2em"}}

#: What a page needs of MathJax: the program, and the fonts that it asks for.
MATHJAX = ("mathjax/tex-chtml.js", "woff-v2/")


def copy_mathjax(app: Sphinx, failure: Exception | None) -> None:
    """Put MathJax beside the pages, from a package that carries it."""
    if failure is None and app.builder.format == "html":
        for one in files("sphinx-mathjax-offline") or ():
            _, _, inner = one.as_posix().partition("/static/")
            if any(part in inner for part in MATHJAX):
                target = Path(app.outdir, "_static", inner)
                target.parent.mkdir(parents=True, exist_ok=True)
                copy_asset_file(str(one.locate()), str(target))


# ------------------------------------------------------------------ gallery

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "subsection_order": ExplicitOrder(
        ["../examples/audit", "../examples/noise", "../examples/space", "../examples/stream", "../examples/search"]
    ),
    "within_subsection_order": "gallery_order.FirstThingsFirst",
    "doc_module": ("nearkin",),
    "backreferences_dir": "reference/backreferences",
    "reference_url": {"nearkin": None},
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "min_reported_time": 1,
    "show_memory": False,
    "write_computation_times": False,  # those pages load a script from elsewhere
    "show_signature": False,
    "copyfile_regex": r"",
    "download_all_examples": True,
    "parallel": min(2, os.cpu_count() or 1),
}

# ------------------------------------------------------------------ pages

html_theme = "pydata_sphinx_theme"
html_title = "nearkin"
html_static_path = ["_static"]
html_css_files = ["nearkin.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "nearkin", "alt_text": "nearkin"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "github_url": "https://github.com/nearkin/nearkin",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": [], "changelog": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def check_pages(app: Sphinx, failure: Exception | None) -> None:
    """Warn of faults that show only in built pages, those of gallery and reference among them."""
    if failure is None and app.builder.format == "html":
        from check_pages import find_faults

        for fault in find_faults(Path(app.outdir)):
            logging.getLogger(__name__).warning(fault)


def setup(app: Sphinx) -> None:
    """Connect what this file adds to Sphinx."""
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", check_pages, priority=900)  # after all that writes files
