"""How Sphinx builds the site: `make docs` writes it to site/."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator
from sphinx_gallery.directives import imgsgnode

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
sys.path.insert(0, str(Path(__file__).parent))

from pliant.version import __version__

project = "pliant"
author = "the pliant developers"
copyright = "the pliant developers, Apache-2.0"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
# The gallery is written from its sources in gallery/ to examples/, where Sphinx finds its pages. gallery.md lists
# the sources for people who read these files without a site.
exclude_patterns = ["gallery", "gallery.md"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings have them, with the shapes of arrays
autodoc_member_order = "groupwise"
napoleon_google_docstring = False
# Types are prose ("array, shape (v, 2)"): Sphinx would take each word of them for the name of a class.
napoleon_use_rtype = napoleon_use_param = False
napoleon_custom_sections = [("Attributes", "params_style")]
smartquotes_action = "D"  # dashes alone: quotes in docstrings belong to code
default_role = "py:obj"  # backticks in docstrings: a link if there is such a name, code otherwise

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": "/plot_",
    "subsection_order": ["gallery/faces", "gallery/medicine", "gallery/biology", "gallery/video"],
    "within_subsection_order": "gallery_figures.Order",
    "image_scrapers": ("gallery_figures.scrape",),
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "min_reported_time": 3600,  # how long an example took says more about the machine than about the example
    "thumbnail_size": (400, 280),
}

html_theme = "furo"
html_title = "pliant"
html_static_path = ["site"]
html_css_files = ["style.css", "gallery.css"]
html_copy_source = False
highlight_language = "text"
pygments_dark_style = "a11y-high-contrast-dark"
html_show_sphinx = False
# Pages load nothing from elsewhere: formulas are MathML, which browsers draw themselves.
html_math_renderer = "mathml"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _formula(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _displayed(translator: HTML5Translator, node: nodes.math_block) -> None:
    mathml = tex2mathml(node.astext(), as_block=True)
    label = f' id="{node["ids"][0]}"' if node["ids"] else ""
    translator.body.append(f'<div class="formula"{label}>{mathml}</div>')
    raise nodes.SkipNode


def _show_gallery(app: Sphinx, name: str, source: list[str]) -> None:
    """Lead from a page to the gallery with its figures, not to the list of its sources."""
    source[0] = source[0].replace("](gallery.md)", "](examples/index.rst)")


_PAGE = re.compile(r"docs/([\w/-]+)\.md")
"""A page of ours as docstrings and help name it, for people who read them in a terminal."""

_SHORT, _LONG = 30, 40
"""Code of so few letters stays on one line; a word of so many may be broken anywhere."""


def _finish(app: Sphinx, page: nodes.document, name: str) -> None:
    """Link the pages that are named, say which code may break at the end of a line, and put figures into boxes."""
    for figure in list(page.findall(imgsgnode)):
        figure.replace_self(nodes.container("", figure.deepcopy(), classes=["figure"]))
    for code in list(page.findall(nodes.literal)):
        text = code.astext()
        if len(text) <= _SHORT:
            code["classes"].append("short")
        elif max(map(len, text.split()), default=0) > _LONG:
            code["classes"].append("long")
    for text in list(page.findall(nodes.Text)):
        if not _inside(text, nodes.FixedTextElement, nodes.reference, nodes.raw):
            parts = _linked(app, text, name)
            if len(parts) > 1:
                text.parent.replace(text, parts)


def _inside(node: nodes.Node, *kinds: type[nodes.Node]) -> bool:
    return node is not None and (isinstance(node, kinds) or _inside(node.parent, *kinds))


def _linked(app: Sphinx, text: nodes.Text, name: str) -> list[nodes.Node]:
    """The pieces of a text on a page, with links where it names pages."""
    pieces: list[nodes.Node] = []
    end = 0
    for found in _PAGE.finditer(text):
        if found[1] in app.env.all_docs:
            address = app.builder.get_relative_uri(name, found[1])
            pieces += [
                nodes.Text(text[end : found.start()]),
                nodes.reference("", found[0], refuri=address, internal=True),
            ]
            end = found.end()
    return [*pieces, nodes.Text(text[end:])]


def setup(app: Sphinx) -> None:
    """Have formulas written as MathML, and pages finished."""
    app.connect("source-read", _show_gallery)
    app.connect("doctree-resolved", _finish)
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_formula, None), block_renderers=(_displayed, None)
    )
