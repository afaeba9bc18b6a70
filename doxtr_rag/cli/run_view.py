"""A run of the ledger, for machines and for people."""

from __future__ import annotations

import dataclasses as dc
import json

from doxtr_rag import bootstrap
from doxtr_rag.cli.durations import shown_duration
from doxtr_rag.core.runs import Health, RunState

Report = dict[str, object]


def run_json(run: bootstrap.RunSeen) -> dict[str, object]:
    """Return a run as the JSON answer has it (retrieval R44)."""
    record = run.record
    return {
        "run": record.run_id,
        "origin": record.origin,
        "status": run.state.value,
        "error_kind": run.error_kind,
        "health": run.health.value if run.health else None,
        "started": record.started,
        "finished": record.finished,
        "duration_seconds": run.duration_s,
        "age_seconds": run.age_s,
        "pid": record.pid,
        "host": record.host,
        "progress": dc.asdict(record.progress),
        "report": report_of(run),
    }


def report_of(run: bootstrap.RunSeen) -> Report:
    """Return what a run said of itself when it ended; nothing while it is at work."""
    try:
        found = json.loads(run.record.report_json)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def run_lines(run: bootstrap.RunSeen) -> list[str]:
    """Return a run as lines for a person."""
    took = shown_duration(run.duration_s)
    kind = f" ({run.error_kind})" if run.error_kind else ""
    if run.is_alive:
        head = f"{run.state.value}{kind} for {took}, process {run.record.pid}"
        return [f"run {run.record.run_id}: {head}", f"  {_progress(run)}", *_advice(run)]
    ended = f"{run.state.value}{kind}, {shown_duration(run.age_s)} ago, took {took}"
    return [f"run {run.record.run_id}: {ended}", f"  {_outcome(run)}"]


def _progress(run: bootstrap.RunSeen) -> str:
    now = run.record.progress
    where = f"{now.phase} {now.done}/{now.total}, " if now.phase else ""
    rate = f"{now.rate:.1f}/s, " if now.rate else ""
    return (
        f"{where}{rate}{now.embedded} embedded, {now.reused} reused, {now.skipped} kept, "
        f"{now.failed} failed"
    )


def _outcome(run: bootstrap.RunSeen) -> str:
    report = report_of(run)
    if run.state is RunState.INTERRUPTED and not report.get("message"):
        return f"{_progress(run)}: its process is gone; the next sphinx-build goes on from there"
    if "message" in report:
        return str(report["message"])
    reuse = report.get("reuse")
    saved = reuse.get("seconds_saved") if isinstance(reuse, dict) else None
    spared = f", about {shown_duration(float(saved))} saved" if saved else ""
    failures = report.get("failures")
    failed = len(failures) if isinstance(failures, dict) else 0
    return (
        f"{report.get('documents', 0)} documents, {report.get('changed_documents', 0)} changed, "
        f"{report.get('removed_documents', 0)} removed, {failed} failed; "
        f"{report.get('embedded', 0)} texts embedded, {report.get('reused', 0)} chunks reused"
        f"{spared}"
    )


def _advice(run: bootstrap.RunSeen) -> list[str]:
    record, since = run.record, run.record.progress.moved or run.record.started
    if run.state is RunState.PAUSED:
        return [f"  it holds its stores: doxtr-rag resume {record.run_id} lets it go on"]
    if run.health is Health.STUCK:
        return [
            f"  no progress since {record.progress.moved}: end process {record.pid}, build again"
        ]
    if run.health in (Health.STALLED, Health.DEGRADED):
        since = record.progress.moved or record.started
        return [f"  {run.health.value}: last progress {since}; it may still finish"]
    return []
