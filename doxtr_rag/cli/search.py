"""`doxtr-rag search`: ask the knowledge base, get cited passages."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.scopes import SCOPE_OF_STORE
from doxtr_rag.core.display import without_controls
from doxtr_rag.core.scope import Scope
from doxtr_rag.retrieval.records import HitRecord, hit_record
from doxtr_rag.retrieval.render import NOTHING_ASKED
from doxtr_rag.retrieval.retriever import Answer, is_blank

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
    """Retrieve and render; a blank question opens no store and loads no model."""
    project = bootstrap.find_project(arguments.conf)
    if is_blank(arguments.query):
        return _outcome(Answer("", (), ()), [])
    scopes = [SCOPES[arguments.scope]] if arguments.scope else list(Scope)
    if project.settings.serve == "on":
        bootstrap.start_if_wanted(project)
    with bootstrap.knowledge_base(project, scopes) as base:
        answer = base.retriever.retrieve(arguments.query, top_k=arguments.top_k)
        hits = [hit_record(p, base.page_url(p.chunk)) for p in answer.passages]
    return _outcome(answer, hits)


def _outcome(answer: Answer, hits: list[HitRecord]) -> Outcome:
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


def _show(console: Console, answer: Answer, hits: list[HitRecord]) -> None:
    if is_blank(answer.query):
        console.print(Text(NOTHING_ASKED))
    elif not hits:
        console.print(Text(f"Nothing in the knowledge base matches {answer.query!r}."))
    for passage, hit in zip(answer.passages, hits, strict=True):
        titles = without_controls(" > ".join(hit["breadcrumb"]))
        console.print(Text(f"{passage.rank}. {titles}", style="bold"))
        console.print(Text(f"   {hit['url']}", style="cyan"))
        console.print(Text(f"   {hit['scope']}  {without_controls(hit['citation'])}", style="dim"))
        for line in without_controls(hit["text"]).splitlines():
            console.print(Text(f"   {line}"))
        console.print()
    for degradation in answer.degraded:
        console.print(Text(f"note: {degradation.detail} ({degradation.code})", style="yellow"))
