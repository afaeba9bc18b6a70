"""Documents that failed, tried again: each kind of source says how, or what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from doxtr_rag.bootstrap.locking import Say, locked
from doxtr_rag.bootstrap.pages import PAGES_KEY, read_cached
from doxtr_rag.bootstrap.project import Project
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import BuildCache, FailureRecord, read_ledger

SPHINX_ORIGIN = "sphinx"
PAGES_FOLDER = "_build/html"
"""Where a build writes when no build has said otherwise."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How a command that writes goes about it."""

    say: Say
    wait_s: float
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class Retried:
    """What became of documents that had failed.

    `done` were read, `failed` could not be read again, with the reason; `waiting` are read by the
    command that stands beside them.
    """

    done: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, more: Retried) -> Retried:
        return Retried(
            self.done + more.done, {**self.failed, **more.failed}, {**self.waiting, **more.waiting}
        )


@dataclass(frozen=True, slots=True)
class Retrier:
    """How documents of one kind of origin are tried again; `next_try` says when that is unasked."""

    next_try: str
    retry: Callable[[Project, Sequence[FailureRecord], Effort], Retried]


def _leave_to_sphinx(
    project: Project, failures: Sequence[FailureRecord], effort: Effort
) -> Retried:
    """Have the next build look at them: only Sphinx can resolve a page and say who may read it."""
    if not effort.is_dry:
        forget(project, [failure.document for failure in failures], effort)
    command = build_command(project)
    return Retried(waiting={failure.document: command for failure in failures})


RETRIERS: dict[str, Retrier] = {
    SPHINX_ORIGIN: Retrier("the next sphinx-build", _leave_to_sphinx),
}
"""By the kind of an origin: `mount:manuals` is of the kind `mount`."""


def retrier(origin: str) -> Retrier:
    """Return who can read documents of an origin; those of a later version wait for a build."""
    return RETRIERS.get(origin.partition(":")[0], RETRIERS[SPHINX_ORIGIN])


def retry(project: Project, effort: Effort) -> Retried:
    """Try again what fails in this project.

    Raises:
        IndexNotBuiltError: nothing was ever stored.
        StoreError: the ledger or a store cannot be used.
    """
    _, failures = read_ledger(project.settings.store_path(Scope.LOCAL_PRIVATE), 0)
    by_origin: dict[str, list[FailureRecord]] = {}
    for failure in failures:
        if failure.project == project.settings.project:
            by_origin.setdefault(failure.origin, []).append(failure)
    outcome = Retried()
    for origin, own in by_origin.items():
        outcome += retrier(origin).retry(project, own, effort)
    return outcome


def reharvest(project: Project, scopes: Sequence[Scope], effort: Effort) -> tuple[int, str]:
    """Have the next build look at every document of some scopes; return their number and how.

    Raises:
        StoreError: a run is at work, or the cache cannot be written.
    """
    name = project.settings.project
    nothing: dict[str, Scope] = {}
    known = read_cached(
        project,
        nothing,
        lambda cache: {k: r.scope for k, r in cache.documents(name, SPHINX_ORIGIN).items()},
    )
    documents = [document for document, scope in known.items() if scope in scopes]
    if documents and not effort.is_dry:
        forget(project, documents, effort)
    return len(documents), build_command(project, "-E")


def forget(project: Project, documents: Sequence[str], effort: Effort) -> None:
    """Have the next build look at some documents, whether they changed or not.

    Raises:
        StoreError: a run is at work, which would record them again, or the cache is unusable.
    """
    settings = project.settings
    with (
        locked(settings.store_path(Scope.LOCAL_PRIVATE), effort.say, effort.wait_s),
        closing(BuildCache(settings.cache_db)) as cache,
    ):
        cache.forget(settings.project, SPHINX_ORIGIN, documents)


def build_command(project: Project, *options: str) -> str:
    """Return the command that builds this project as the last build did."""
    settings = project.settings
    recorded = read_cached(project, None, lambda cache: cache.get_value(PAGES_KEY))
    pages = Path(recorded) if recorded else settings.root / PAGES_FOLDER
    conf = [] if settings.conf_dir == settings.source_dir else ["-c", str(settings.conf_dir)]
    return " ".join(
        ["sphinx-build", *options, *conf, str(settings.source_dir), str(pages)],
    )
