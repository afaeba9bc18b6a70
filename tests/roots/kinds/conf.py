project = "Demo"
extensions = [
    "harvest_project",
    "myst_parser",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.graphviz",
    "sphinx.ext.ifconfig",
    "sphinx.ext.todo",
]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
numfig = True
autosummary_generate = False
