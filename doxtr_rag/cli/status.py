"""`doxtr-rag status`: what the stores hold, how the last runs went, why a page is private."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.durations import shown_duration
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.run_view import run_json, run_lines
from doxtr_rag.cli.sizes import shown_size
from doxtr_rag.core.ports import DocumentRecord

NAME = "status"
HELP = "show the stores, the last runs and failures, or why a document is private or shared"
EXAMPLES = """  doxtr-rag status
  doxtr-rag status --why usage/quickstart
  doxtr-rag status --json"""

RUNS_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--why", metavar="DOC", help="print what each authority said of a document's scope"
    )


def run(arguments: argparse.Namespace) -> Outcome:
    """Look, without a model."""
    project = bootstrap.find_project(arguments.conf)
    if arguments.why is not None:
        return _why(arguments.why, bootstrap.document_record(project, arguments.why))
    return _overview(bootstrap.overview(project, RUNS_SHOWN))


def _why(document: str, record: DocumentRecord) -> Outcome:
    origin, said, reason = record.decided_by
    data = {
        "document": document,
        "source_file": record.source_file,
        "scope": record.scope.value,
        "chunks": record.chunks,
        "decided_by": {"origin": origin, "scope": said, "reason": reason},
        "signals": [
            {"origin": origin, "scope": scope, "reason": text}
            for origin, scope, text in record.signals
        ],
    }

    def show(console: Console) -> None:
        console.print(Text(f"{document} ({record.source_file}): {record.scope.value}", "bold"))
        console.print(Text(f"decided by {origin}: {reason}"))
        for name, scope, text in record.signals:
            console.print(Text(f"  {name:10} {scope or 'in doubt':14} {text}"))

    return Outcome(data, show)


def _overview(found: bootstrap.Overview) -> Outcome:
    stores = {name: _store(stats) for name, stats in found.stores.items()}
    data: dict[str, object] = {
        "project": found.project,
        "root": str(found.root),
        "profile": found.profile,
        "stores": stores,
        "last_runs": [run_json(run) for run in found.runs],
        "failures": [_failure(failure) for failure in found.failures],
        "degraded": [{"code": d.code, "detail": d.detail} for d in found.degraded],
    }
    return Outcome(data, lambda console: _show(console, found))


def _store(stats: bootstrap.StoreStats | None) -> dict[str, object]:
    if stats is None:
        return {"exists": False}
    return {
        "exists": True,
        "documents": stats.documents,
        "chunks": stats.chunks,
        "projects": list(stats.projects),
        "fingerprint": stats.fingerprint,
        "dimension": stats.dimension,
        "index": stats.index,
        "bytes": stats.bytes_on_disk,
        "writable": stats.is_writable,
    }


def _failure(failure: bootstrap.FailureSeen) -> dict[str, object]:
    record = failure.record
    return {
        "document": record.document,
        "project": record.project,
        "origin": record.origin,
        "reason": record.reason,
        "since": record.since,
        "age_seconds": failure.age_s,
        "next_try": failure.next_try,
    }


def _show(console: Console, found: bootstrap.Overview) -> None:
    console.print(Text(f"{found.project} in {found.root} ({found.profile})", style="bold"))
    for name, stats in found.stores.items():
        console.print(Text(f"  {name:8} {_store_line(stats)}"))
    for run in found.runs:
        for line in run_lines(run):
            console.print(Text(f"  {line}"))
    for failure in found.failures:
        told = f"{failure.record.document}: {failure.record.reason}"
        console.print(Text(f"  failed for {shown_duration(failure.age_s)}: {told}"))
        console.print(Text(f"    tried again by {failure.next_try}"))
    for degradation in found.degraded:
        console.print(Text(f"  {degradation.code}: {degradation.detail}", style="yellow"))


def _store_line(stats: bootstrap.StoreStats | None) -> str:
    if stats is None:
        return "never filled: run sphinx-build"
    return (
        f"{stats.documents} documents, {stats.chunks} chunks, index {stats.index}, "
        f"{shown_size(stats.bytes_on_disk)}"
    )
