"""A project that uses every node kind the harvester knows and every way a page can be private."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

project = "Harness"
author = "The doxtr-rag developers"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.todo",
    "sphinx.ext.graphviz",
    "sphinx.ext.mathjax",
    "myst_parser",
    "sphinx_design",
    "doxtr_rag",
]
exclude_patterns = ["examples"]
html_theme = "alabaster"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
todo_include_todos = False
graphviz_dot = "dot-is-not-needed"  # the same warning on every machine
rst_prolog = """
.. |product| replace:: Widget Works
"""

rag_embedding_provider = "tiny"
rag_serve = "off"
