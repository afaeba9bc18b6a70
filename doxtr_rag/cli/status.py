"""`doxtr-rag status`: what the stores hold, how the last runs went, why a page is private."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
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
        "last_runs": [_run(run) for run in found.runs],
        "failures": [
            {"document": f.document, "reason": f.reason, "since": f.since} for f in found.failures
        ],
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


def _run(run: bootstrap.RunRecord) -> dict[str, object]:
    return {
        "started": run.started,
        "finished": run.finished,
        "status": run.status,
        "report": json.loads(run.report_json),
    }


def _show(console: Console, found: bootstrap.Overview) -> None:
    console.print(Text(f"{found.project} in {found.root} ({found.profile})", style="bold"))
    for name, stats in found.stores.items():
        console.print(Text(f"  {name:8} {_store_line(stats)}"))
    _show_runs(console, found.runs)
    for failure in found.failures:
        console.print(Text(f"  failed since {failure.since}: {failure.document}: {failure.reason}"))
    for degradation in found.degraded:
        console.print(Text(f"  {degradation.code}: {degradation.detail}", style="yellow"))


def _store_line(stats: bootstrap.StoreStats | None) -> str:
    if stats is None:
        return "never filled: run sphinx-build"
    return (
        f"{stats.documents} documents, {stats.chunks} chunks, index {stats.index}, "
        f"{shown_size(stats.bytes_on_disk)}"
    )


def _show_runs(console: Console, runs: Sequence[bootstrap.RunRecord]) -> None:
    for run in runs:
        report = json.loads(run.report_json)
        shown = report.get("message") or f"{report.get('embedded', 0)} texts embedded"
        console.print(Text(f"  run {run.finished}: {run.status}, {shown}"))
