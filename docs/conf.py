"""The documentation of doxtr-rag, indexed by doxtr-rag."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "doxtr-rag"
author = "The doxtr-rag developers"
extensions = ["myst_parser", "doxtr_rag", "generated_reference"]
exclude_patterns = ["_build", "_ext", ".doxtr"]
html_theme = "alabaster"
html_theme_options = {"description": "Documentation you can ask, with two isolated stores"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

rag_embedding_provider = os.environ.get("DOCS_EMBEDDING_PROFILE", "minilm-offline")
rag_root = "."
rag_source_roots = ["."]
rag_serve = "off"
if os.environ.get("DOCS_KNOWLEDGE_BASE") == "off":
    rag_builders = []
