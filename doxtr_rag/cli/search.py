"""`doxtr-rag search`: ask the knowledge base, get cited passages."""

from __future__ import annotations

import argparse
import unicodedata

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.pages import page_url
from doxtr_rag.cli.scopes import SCOPE_OF_STORE
from doxtr_rag.core.scope import Scope
from doxtr_rag.retrieval.retriever import Answer, Passage

NAME = "search"
HELP = "ask both stores and print cited passages"
EXAMPLES = """  doxtr-rag search "how do I exclude a file from the build"
  doxtr-rag search html_baseurl --top-k 3 --json
  doxtr-rag search "release checklist" --scope private"""

SCOPES = {**SCOPE_OF_STORE, **{scope.value: scope for scope in Scope}}
MAX_TOP_K = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("query", metavar="QUERY", help="a question, a name or an error message")
    parser.add_argument(
        "--top-k", type=_top_k, default=5, metavar="N", help="sections to return (default: 5)"
    )
    parser.add_argument("--scope", choices=SCOPES, help="ask one store only (default: both)")


def run(arguments: argparse.Namespace) -> Outcome:
    """Retrieve and render."""
    project = bootstrap.find_project(arguments.conf)
    scopes = [SCOPES[arguments.scope]] if arguments.scope else list(Scope)
    with bootstrap.retriever(project, scopes) as retriever:
        answer = retriever.retrieve(arguments.query, top_k=arguments.top_k)
    pages = bootstrap.pages_folder(project)
    hits = [_hit(passage, page_url(passage.chunk, pages)) for passage in answer.passages]
    data = {
        "hits": hits,
        "nothing_relevant": not hits,
        "degraded": [{"code": d.code, "detail": d.detail} for d in answer.degraded],
    }
    return Outcome(data, lambda console: _show(console, answer, hits))


def _top_k(word: str) -> int:
    number = int(word) if word.isdecimal() else 0
    if not 1 <= number <= MAX_TOP_K:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MAX_TOP_K}")
    return number


def _hit(passage: Passage, url: str) -> dict[str, object]:
    chunk = passage.chunk
    locator = chunk.locator
    return {
        "rank": passage.rank,
        "id": chunk.chunk_id,
        "score": round(passage.score, 6),
        "document": chunk.document,
        "title": chunk.breadcrumb[-1] if chunk.breadcrumb else chunk.document,
        "breadcrumb": list(chunk.breadcrumb),
        "section_id": chunk.anchor,
        "locator": {
            "kind": locator.kind if locator else "anchor",
            "value": locator.value if locator else chunk.anchor,
            "end": locator.end if locator else None,
        },
        "url": url,
        "citation": passage.citation,
        "quote": passage.quote,
        "scope": chunk.scope.value,
        "project": chunk.project,
        "store": passage.store,
        "text": chunk.text,
    }


def _show(console: Console, answer: Answer, hits: list[dict[str, object]]) -> None:
    if not hits:
        console.print(Text(f"Nothing in the knowledge base matches {answer.query!r}."))
    for passage, hit in zip(answer.passages, hits, strict=True):
        titles = without_controls(" > ".join(passage.chunk.breadcrumb))
        console.print(Text(f"{passage.rank}. {titles}", style="bold"))
        console.print(Text(f"   {hit['url']}", style="cyan"))
        console.print(Text(f"   {hit['scope']}  {without_controls(passage.citation)}", style="dim"))
        for line in without_controls(passage.chunk.text).splitlines():
            console.print(Text(f"   {line}"))
        console.print()
    for degradation in answer.degraded:
        console.print(Text(f"note: {degradation.detail} ({degradation.code})", style="yellow"))


def without_controls(text: str) -> str:
    """Return a text that cannot steer a terminal: control characters but tab and newline go."""
    return "".join(c for c in text if c in "\t\n" or unicodedata.category(c) != "Cc")
