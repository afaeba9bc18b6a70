"""One build of one Sphinx application: collect pages as they are resolved, converge at its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import sphinx

from doxtr_rag.core.documents import DocumentContext, DocumentInput, Harvest, Section, digest
from doxtr_rag.core.errors import (
    CorruptDocumentError,
    DocumentError,
    DoxtrRagError,
    StoreError,
)
from doxtr_rag.sphinx_ext.builder import RagBuilder
from doxtr_rag.sphinx_ext.harvester import InternalLinks, caption_labels, harvest
from doxtr_rag.sphinx_ext.references import (
    changed_words,
    compared_files,
    figures_of,
    inventory,
    linked_documents,
    without_links,
)
from doxtr_rag.sphinx_ext.scope_field import misplaced_fields
from doxtr_rag.sphinx_ext.spool import Manifest, Spool, SpoolEntry
from doxtr_rag.sphinx_ext.warnings import RagWarning, warn

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.environment import BuildEnvironment

    from doxtr_rag.sphinx_ext.surroundings import Surroundings

ORIGIN = "sphinx"
TAGS_ARE_PASSED = (9, 0)
"""The first Sphinx that wants the tags of a build to resolve a document."""


def builder_kind(builder: Builder) -> str:
    """Return the name `rag_builders` knows a builder by."""
    return "rag" if isinstance(builder, RagBuilder) else str(builder.name)


class HarvestSession:
    """Pages of one build: what was resolved in it, what failed, what the spool still holds.

    `problem` is what kept pages from being written; those stay as they were stored.
    """

    def __init__(
        self, spool: Spool, words: dict[str, tuple[str, ...]], conditions: str = ""
    ) -> None:
        self._spool = spool
        self._words = words
        self._links: InternalLinks | None = None
        self._fresh: dict[str, SpoolEntry] = {}
        self._unwritten: set[str] = set()
        self.failures: dict[str, str] = {}
        self.problem: StoreError | None = None
        try:
            self._manifest = spool.begin(conditions)
        except StoreError as error:
            self._manifest = Manifest(conditions=conditions)
            self.problem = error
        self._is_usable = self.problem is None

    def missing(self, env: BuildEnvironment) -> list[str]:
        """Return the documents whose harvest is missing or not of their last reading."""
        if not self._is_usable:
            return []
        return sorted(name for name in env.all_docs if not self._is_current(env, name))

    def files_of(self, docname: str) -> tuple[str, ...]:
        """Return the files that a page shows text of, unknown to Sphinx."""
        entry = self._entry(docname)
        return entry.files if entry else ()

    def doubts_of(self, docname: str) -> tuple[str, ...]:
        """Return what a page may have meant to say of its scope."""
        entry = self._entry(docname)
        return entry.doubts if entry else ()

    def collect(self, app: Sphinx, doctree: nodes.document, docname: str) -> None:
        """Harvest one resolved document into the spool; a failure is kept to the document."""
        if not self._is_usable:
            return
        try:
            sections = harvest(
                doctree,
                docname,
                resolve_link=self._links_of(app).of(docname),
                labels=_caption_labels(app, docname),
                show_todos=bool(getattr(app.config, "todo_include_todos", False)),
            )
            body_hash = self._spool.write(docname, sections)
        except DocumentError as error:
            self._fail(app, docname, error.reason)
            return
        except StoreError as error:
            self.problem = self.problem or error
            self._unwritten.add(docname)
            return
        self.failures.pop(docname, None)
        self._unwritten.discard(docname)
        self._fresh[docname] = SpoolEntry(
            stamp=int(app.env.all_docs[docname]),
            body_hash=body_hash,
            words=self._words.get(docname, ()),
            links=linked_documents(sections),
            files=compared_files(doctree),
            doubts=misplaced_fields(
                doctree,
                Path(app.env.doc2path(docname)),
                app.env.metadata.get(docname, {}),
            ),
        )

    def _links_of(self, app: Sphinx) -> InternalLinks:
        if self._links is None:
            uris = {name: app.builder.get_target_uri(name) for name in app.env.all_docs}
            self._links = InternalLinks(uris, "")
        return self._links

    def _fail(self, app: Sphinx, docname: str, reason: str) -> None:
        self.failures[docname] = reason
        self._fresh.pop(docname, None)
        warn(app, RagWarning.HARVEST, "not indexed: %s", reason, page=docname)

    def refresh_stale(self, app: Sphinx) -> int:
        """Resolve again the pages that show text of other pages which has changed since.

        Only the harvest is renewed; what Sphinx wrote stays as it is. Returns their number.
        """
        now = inventory(app.env)
        changed = changed_words(self._manifest.inventory, now)
        stale = [
            name
            for name in sorted(app.env.all_docs)
            if name not in self._fresh
            and self._is_current(app.env, name)
            and not changed.isdisjoint({*self._manifest.entries[name].words, figures_of(name)})
        ]
        for name in stale:
            self._resolve_again(app, name)
        self._manifest = replace(self._manifest, inventory=now)
        return len(stale)

    def _resolve_again(self, app: Sphinx, docname: str) -> None:
        try:
            _resolve(app, docname)
        except DocumentError as error:
            self._fail(app, docname, error.reason)

    def close(self, env: BuildEnvironment) -> None:
        """Write the manifest: what this build resolved, and what is still right from before."""
        entries = {
            name: entry
            for name, entry in {**self._manifest.entries, **self._fresh}.items()
            if name in env.found_docs and not self._is_lost(name)
        }
        try:
            self._spool.finish(replace(self._manifest, entries=entries))
        except StoreError as error:
            self.problem = self.problem or error

    def forget(self, env: BuildEnvironment, failures: Mapping[str, str]) -> None:
        """Make the next build resolve again what could not be stored."""
        self.failures.update(failures)
        self.close(env)

    def harvest(self, env: BuildEnvironment, project: str, surroundings: Surroundings) -> Harvest:
        """Return the whole project as the last step of a build sees it."""
        documents: list[DocumentInput] = []
        kept: dict[str, DocumentContext] = {}
        for name in sorted(env.found_docs):
            context = surroundings.of(name)
            entry = self._entry(name)
            if entry is not None and self._is_current(env, name):
                hidden = () if surroundings.is_private(name) else entry.links
                private = tuple(link for link in hidden if surroundings.is_private(link))
                documents.append(self._input(name, entry.body_hash, context, private))
            else:
                kept[name] = context
        is_complete = set(env.all_docs) >= set(env.found_docs)
        failures = {name: reason for name, reason in self.failures.items() if name in kept}
        return Harvest(project, ORIGIN, tuple(documents), kept, is_complete, failures)

    def _input(
        self, name: str, body_hash: str, context: DocumentContext, hidden: Collection[str]
    ) -> DocumentInput:
        """Return a page as the engine takes it, without links to documents that are hidden."""

        def load() -> tuple[Section, ...]:
            return without_links(self._spool.read(name, body_hash), hidden)

        shown_hash = digest(body_hash, sorted(hidden)) if hidden else body_hash
        return DocumentInput(name, shown_hash, context, load)

    def _entry(self, docname: str) -> SpoolEntry | None:
        return self._fresh.get(docname) or self._manifest.entries.get(docname)

    def _is_lost(self, docname: str) -> bool:
        return docname in self.failures or docname in self._unwritten

    def _is_current(self, env: BuildEnvironment, docname: str) -> bool:
        if self._is_lost(docname):
            return False
        entry = self._entry(docname)
        stamp = env.all_docs.get(docname)
        is_of_last_reading = entry is not None and stamp is not None and entry.stamp == int(stamp)
        return is_of_last_reading and self._spool.has(docname)


def _resolve(app: Sphinx, docname: str) -> None:
    """Resolve one page once more, which reads a file of Sphinx's and calls other extensions."""
    tags: dict[str, Any] = {"tags": app.tags} if sphinx.version_info >= TAGS_ARE_PASSED else {}
    try:
        app.env.get_and_resolve_doctree(docname, app.builder, **tags)
    except DoxtrRagError:
        raise
    except Exception as error:
        reason = f"its references cannot be resolved again: {type(error).__name__}: {error}"
        raise CorruptDocumentError(docname, reason) from error


def _caption_labels(app: Sphinx, docname: str) -> dict[str, str]:
    if not app.config.numfig:
        return {}
    return caption_labels(app.env.toc_fignumbers.get(docname, {}), app.config.numfig_format)


def spool_folder(app: Sphinx) -> Path:
    """Return the spool of this builder and language, beside the doctrees."""
    language = quote(str(app.config.language or "en"), safe="")
    return Path(app.doctreedir) / "doxtr_rag" / f"{builder_kind(app.builder)}-{language}"


def conditions(app: Sphinx) -> str:
    """Return what stands for the tags and settings by which a builder resolves every page again.

    The builder for pages compares the same with what it wrote last. A builder that writes none,
    or two folders of pages with the same doctrees, would not notice.
    """
    found = getattr(app.builder, "build_info", None)
    return "" if found is None else f"{found.config_hash} {found.tags_hash}"


def is_page(app: Sphinx, doctree: nodes.document, docname: str) -> bool:
    """Say whether a resolved tree is a document itself: todolist resolves scraps under its name."""
    return str(doctree.get("source") or "") == str(app.env.doc2path(docname))
