"""The site: `make docs` builds it from the pages of this folder and from files that are written for it.

Pages are plain Markdown, which tests run. Links between them also work where the repository is read.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "site"))

import errors  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402

from headrace import __version__  # noqa: E402

project = "headrace"
author = "The headrace developers"
copyright = "2026, the headrace developers"  # noqa: A001 - Sphinx's name
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["site", "_build"]
nitpicky = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.header",  # a changelog has the same headings in each version
    "ref.python",  # several classes have an attribute of the name that a docstring means
]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings name shapes and units
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_param = False  # which would repeat the text of parameters that share one
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "code"

html_theme = "sphinx_book_theme"
html_title = f"headrace {release}"
html_static_path = ["site/static"]
html_css_files = ["headrace.css"]
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "navbar_persistent": [],
}
html_show_sourcelink = False

pages.write(HERE / "generated")
reference.write(HERE / "generated")
errors.write(HERE / "generated")


def setup(app: object) -> None:
    """Give the first page its table of contents, and lead links out of the folder to the generated pages."""
    app.connect("source-read", pages.adapt)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", reference.escape, priority=100)  # type: ignore[attr-defined]
    app.connect("autodoc-process-signature", reference.sign)  # type: ignore[attr-defined]
