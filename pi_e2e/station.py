"""The small knowledge base that most tests ask: its pages, and the question they answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from loopback import free_ports, port_settings

TOOL = "search_knowledge_base"
QUESTION = "how often is moon cheese handed out?"
SENTENCE = "Moon cheese is handed out on every second Monday"
SECRET = "The secret budget of the station is nine thousand credits."  # noqa: S105 - a sentence

PAGES = {
    "index": "Moon station\n============\n\n.. toctree::\n\n   food\n   air\n   noter/budget\n",
    "food": (
        "Food\n====\n\nMoon cheese\n-----------\n\n"
        f"{SENTENCE}, one wheel for each crew.\n\n"
        "Bread\n-----\n\nBread is baked in the morning.\n"
    ),
    "air": (
        "Air\n===\n\nScrubbers\n---------\n\nThe scrubbers take carbon dioxide out of the air.\n"
    ),
    "noter/budget": f"Budget\n======\n\n{SECRET}\n",
}


def write_pages(root: Path) -> None:
    """Write the pages of the station and how they are built."""
    write_conf(root, "Station")
    for name, text in PAGES.items():
        path = root / "source" / f"{name}.rst"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_conf(root: Path, project: str) -> None:
    """Write the settings of a project with the real small model and ports of its own."""
    settings = {
        "project": project,
        "extensions": ["doxtr_rag"],
        "rag_embedding_provider": "minilm-offline",
        "rag_serve": "auto",
        **port_settings(free_ports(3)),
    }
    (root / "source").mkdir(parents=True, exist_ok=True)
    lines = (f"{name} = {value!r}\n" for name, value in settings.items())
    (root / "source" / "conf.py").write_text("".join(lines))
    (root / "pyproject.toml").touch()


def endpoints_with_shared_at(project: Path, folder: Path, port: int) -> Path:
    """Return endpoints for DOXTR_RAG_ENDPOINTS: the project's, with the shared store elsewhere.

    What lies in the project itself the running server would write again.
    """
    for name in ("endpoints.json", "server.token"):
        shutil.copy(project / ".doxtr" / name, folder)
    path = folder / "endpoints.json"
    endpoints = json.loads(path.read_text())
    endpoints["shared"] |= {"mode": "http", "port": port}
    path.write_text(json.dumps(endpoints))
    return path
