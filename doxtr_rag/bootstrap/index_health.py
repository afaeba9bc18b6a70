"""Comparing every store's index with its corpus; needs no model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from doxtr_rag.bootstrap.project import STORE_NAMES, Project
from doxtr_rag.core.errors import DoxtrRagError, IndexNotBuiltError, StoreUnavailableError
from doxtr_rag.core.scope import Scope
from doxtr_rag.retrieval.health import Check
from doxtr_rag.storage.index_check import Comparison, compare
from doxtr_rag.storage.index_recall import LEAST_RECALL, TOP_K, recall

NAMED = 10
"""How many records of a kind a finding names."""

CORRUPT = "index_corrupt"


def check_indexes(project: Project, *, is_deep: bool, is_recall_measured: bool) -> list[Check]:
    """Look at the indexes of all stores as closely as asked for; nothing is raised."""
    looks: list[tuple[str, Callable[[str, str, Path], Check]]] = []
    if is_deep:
        looks.append(("index", _deep))
    if is_recall_measured:
        looks.append(("recall", _recall))
    return [
        _on_a_server(STORE_NAMES[scope], what)
        if project.settings.server_uri(scope)
        else _checked(STORE_NAMES[scope], what, project.settings.store_path(scope), look)
        for what, look in looks
        for scope in Scope
    ]


def _on_a_server(store: str, what: str) -> Check:
    said = f"on a Chroma server, whose builds compare it: {_mending(store)} sends all of it again"
    return Check(f"{store} {what}", "ready", said)


def _checked(store: str, what: str, folder: Path, look: Callable[[str, str, Path], Check]) -> Check:
    name = f"{store} {what}"
    try:
        return look(name, _mending(store), folder)
    except IndexNotBuiltError:
        return Check(name, "ready", "never filled")
    except StoreUnavailableError as error:
        return Check(name, CORRUPT, f"{error}: {_mending(store)}")
    except DoxtrRagError as error:
        return Check(name, error.kind, str(error))


def _mending(store: str) -> str:
    return f"run doxtr-rag rebuild --scope {store}"


def _deep(name: str, mending: str, folder: Path) -> Check:
    found = compare(folder)
    figures = {
        "records": found.records,
        "sampled": found.sampled,
        **{kind: len(records) for kind, records, _ in _kinds(found)},
    }
    said = "; ".join(
        f"{len(records)} {words}: {_first(records)}"
        for _, records, words in _kinds(found)
        if records
    )
    held = f"{found.records} records and {found.sampled} vectors are those of the corpus"
    if found.is_equal:
        return Check(name, "ready", f"{held}; {said}" if said else held, figures)
    return Check(name, CORRUPT, f"{said}: {mending}", figures)


def _kinds(found: Comparison) -> list[tuple[str, tuple[str, ...], str]]:
    return [
        ("files", found.files, "files are not as they were written"),
        ("missing", found.missing, "chunks are missing"),
        ("extra", found.extra, "records are in no corpus"),
        ("differing", found.differing, "chunks have another vector"),
        ("unreachable", found.unreachable, "chunks cannot be reached through the graph"),
    ]


def _first(records: tuple[str, ...]) -> str:
    more = "" if len(records) <= NAMED else f" and {len(records) - NAMED} more"
    return f"{', '.join(records[:NAMED])}{more}"


def _recall(name: str, mending: str, folder: Path) -> Check:
    found = recall(folder)
    figures = {"recall_at_10": round(found.share, 4), "questions": found.questions}
    if not found.questions:
        return Check(name, "ready", "empty: there is nothing to find", figures)
    said = (
        f"{found.share:.2%} of the {TOP_K} nearest chunks are found, asked {found.questions} times"
    )
    if found.is_enough:
        return Check(name, "ready", said, figures)
    return Check(name, CORRUPT, f"{said}, {LEAST_RECALL:.0%} are wanted: {mending}", figures)
