"""A small extension, and the folders of a user who may install it."""

from __future__ import annotations

import pytest
from agent_files import write_tree

from doxtr_rag.agent_install.extension import packaged
from doxtr_rag.agent_install.places import AgentPlaces

ENTRY = """const TOOL = "search_knowledge_base";
export default (pi) => pi.registerTool({ name: TOOL });
"""
SOURCES = {
    "package.json": {"name": "kb-for-pi", "pi": {"extensions": ["./chroma-rag.ts"]}},
    "chroma-rag.ts": ENTRY,
    "contract/scrub.json": "[]",
    "README.md": "How to.\n",
}
DEVELOPMENT = {
    "tests/chroma-rag.test.ts": "test();\n",
    "contract/vectors/rrf.json": "[]",
    "node_modules/vitest/index.js": "1;\n",
    "package-lock.json": "{}",
    "tsconfig.json": "{}",
    "vitest.config.ts": "1;\n",
    ".npmrc": "fund=false\n",
}


@pytest.fixture
def extension(tmp_path):
    return packaged(write_tree(tmp_path / "package", SOURCES | DEVELOPMENT))


@pytest.fixture
def places(tmp_path):
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return AgentPlaces(home=home, config_dir=home / ".config", project_root=project)


@pytest.fixture
def agent_dir(places):
    return places.home / ".pi" / "agent"
