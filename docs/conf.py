"""Sphinx configuration of the documentation: `make docs` builds it into `docs/_build/html`, without the network.

The reference pages are generated from the code when the site is built: see `reference_pages.py`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference_pages

import rlm

project = "rlm"
author = "The rlm authors"
copyright = "2026, the rlm authors"
release = rlm.__version__

extensions = ["myst_parser", "sphinx_click"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

man_pages = [("reference/command_line", "rlm", "run language models on inputs of any length", "", 1)]

html_theme = "furo"
html_title = "rlm"
html_show_sphinx = False
html_copy_source = False


def _plain(app, ctx, lines):
    """Keep the asterisks of help texts: reStructuredText would take them for emphasis."""
    lines[:] = [line.replace("*", "\\*") for line in lines]


def setup(app):
    for part in ("description", "options", "arguments", "epilog"):
        app.connect(f"sphinx-click-process-{part}", _plain)
    app.connect("builder-inited", lambda app: reference_pages.write(Path(app.srcdir) / "reference"))
    app.connect("source-read", reference_pages.link_to_repository)
    return {"parallel_read_safe": True}
