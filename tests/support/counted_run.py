"""A run of the real thing in a process of its own, which keeps a journal of what it embedded.

`python counted_run.py JOURNAL SABOTAGE ingest SPEC.json`
`python counted_run.py JOURNAL SABOTAGE sphinx ARGUMENT...`
`python counted_run.py JOURNAL SABOTAGE cli ARGUMENT...`

The journal has a line `embed TEXT_HASH` for every text given to the model, and `save TEXT_HASH` for
every vector whose transaction was committed. SABOTAGE is the name of a broken guard, or `none`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import sabotage

from doxtr_rag import bootstrap
from doxtr_rag.core.documents import (
    Block,
    BlockKind,
    DocumentContext,
    DocumentInput,
    Harvest,
    Section,
    digest,
)
from doxtr_rag.core.errors import DoxtrRagError
from doxtr_rag.core.scope import Scope, ScopeSignal
from doxtr_rag.embedding.onnx import OnnxEmbedder
from doxtr_rag.storage.store import EmbeddedStore

PROJECT = "demo"
ORIGIN = "sphinx"


def keep_journal(path: Path) -> None:
    """Write down what is embedded and what is saved, whatever kills this process."""
    journal = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    embed, save = OnnxEmbedder.embed, EmbeddedStore.save_vectors

    def note(word: str, hashes: list[str]) -> None:
        os.write(journal, "".join(f"{word} {text_hash}\n" for text_hash in hashes).encode())

    def counted(self, texts):
        for batch in embed(self, texts):
            note("embed", [hashlib.sha256(texts[index].encode()).hexdigest() for index, _ in batch])
            yield batch

    def saved(self, fingerprint, vectors):
        save(self, fingerprint, vectors)
        note("save", list(vectors))

    OnnxEmbedder.embed, EmbeddedStore.save_vectors = counted, saved


def page(name: str, scope: str, sections: list[list[str]]) -> DocumentInput:
    """Return one document; a section is anchor, title and text."""
    made = tuple(
        Section(anchor, (name.title(), title), (Block(BlockKind.TEXT, text),))
        for anchor, title, text in sections
    )
    signal = ScopeSignal("path", Scope(scope), "by the test")
    context = DocumentContext((), f"{name}.html", f"source/{name}.rst", (signal,))
    return DocumentInput(name, digest(sections), context, lambda: made)


def ingest(spec: dict[str, object]) -> int:
    """Converge the stores of a folder with the pages of a specification."""
    root = Path(str(spec["root"]))
    (root / "source").mkdir(parents=True, exist_ok=True)
    project = bootstrap.project(
        {
            "rag_embedding_provider": "tiny",
            "rag_device": "cpu",
            "rag_root": "..",
            "rag_allow_shrink": True,
            **dict(spec.get("settings", {})),  # type: ignore[call-overload]
        },
        conf_dir=root / "source",
        source_dir=root / "source",
        sphinx_project=str(spec.get("project", PROJECT)),
        language=None,
        html_baseurl="",
    )
    pages = tuple(page(name, *made) for name, made in dict(spec["pages"]).items())  # type: ignore[call-overload]
    harvest = Harvest(project.settings.project, ORIGIN, pages)
    try:
        report = bootstrap.ingest(project, harvest, lambda *_: None, None, say)
    except DoxtrRagError as error:
        say(f"FAILED {error.kind}: {error}")
        return 1
    say(json.dumps(report.to_json()))
    return 0


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201 - this process talks to the test that started it


def main(arguments: list[str]) -> int:
    """Do what the module says."""
    journal, broken, what, *rest = arguments
    keep_journal(Path(journal))
    sabotage.apply(broken)
    if what == "ingest":
        return ingest(json.loads(Path(rest[0]).read_text(encoding="utf-8")))
    sys.argv[1:] = rest
    if what == "sphinx":
        from sphinx.cmd.build import main as sphinx  # noqa: PLC0415 - half a second

        return sphinx(rest)
    from doxtr_rag.cli.main import main as command  # noqa: PLC0415

    return command(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
