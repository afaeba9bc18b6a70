"""Reading on from a hit: the outline of a document, and a section between its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from doxtr_rag.core.addressing import section_id
from doxtr_rag.core.documents import StoredChunk
from doxtr_rag.core.errors import StoreError, UnknownDocumentError
from doxtr_rag.core.ports import SearchableStore
from doxtr_rag.retrieval.lines import line

NAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class SectionText:
    """One section of a document, its parts joined; `first` is the chunk that locates it."""

    section: str
    first: StoredChunk
    text: str

    @property
    def title(self) -> str:
        """The section's own title; the document's name before its first section."""
        titles = self.first.breadcrumb
        return (titles[-1] if titles else "") or self.first.document


@dataclass(frozen=True, slots=True)
class DocumentSections:
    """A document of one store, section by section in reading order."""

    store: str
    project: str
    document: str
    sections: tuple[SectionText, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A section and the ones before and after it."""

    store: str
    document: str
    section: SectionText
    before: SectionText | None
    after: SectionText | None


def sections_of(stores: Sequence[SearchableStore], name: str) -> DocumentSections:
    """Return a document of the first store that holds it.

    Raises:
        UnknownDocumentError: no store does; the message has near names.
        StoreError: no store could be asked.
    """
    near: list[str] = []
    failures: list[StoreError] = []
    for store in stores:
        try:
            found = store.document(name)
        except StoreError as error:
            failures.append(error)
            continue
        if found.chunks:
            first = found.chunks[0]
            return DocumentSections(
                store.name, first.project, first.document, tuple(_sections(found.chunks))
            )
        near += found.near
    if len(failures) == len(stores):
        raise failures[0]
    names = ", ".join(line(each) for each in list(dict.fromkeys(near))[:NAMES_SHOWN])
    hint = f"did you mean {names}?" if names else "search for it first"
    raise UnknownDocumentError(line(name), f"no store holds this document: {hint}")


def read_section(found: DocumentSections, section: str) -> Reading:
    """Return a section by its anchor, its title in any letter case, or its id.

    Raises:
        UnknownDocumentError: the document has no such section; the message names those it has.
    """
    wanted = section.strip().removeprefix("#")
    at = next(
        (at for at, s in enumerate(found.sections) if wanted in (s.first.anchor, s.section)),
        None,
    )
    if at is None:
        titles = [s.title.casefold() for s in found.sections]
        at = titles.index(wanted.casefold()) if wanted.casefold() in titles else None
    if at is not None:
        before = found.sections[at - 1] if at else None
        after = found.sections[at + 1] if at + 1 < len(found.sections) else None
        return Reading(found.store, found.document, found.sections[at], before, after)
    names = ", ".join(line(s.first.anchor) or "(start)" for s in found.sections[:NAMES_SHOWN])
    raise UnknownDocumentError(
        line(found.document), f"no section {line(section)!r}: it has {names}"
    )


def _sections(chunks: Sequence[StoredChunk]) -> list[SectionText]:
    return [
        SectionText(key, parts[0], joined([part.text for part in parts]))
        for key, group in groupby(chunks, key=lambda chunk: section_id(chunk.chunk_id))
        for parts in [list(group)]
    ]


def joined(parts: Sequence[str]) -> str:
    """Return the parts of a section as one text; what a part repeats of the last one goes."""
    text = parts[0] if parts else ""
    for part in parts[1:]:
        repeated = _overlap(text, part)
        text += part[repeated:] if repeated else f"\n\n{part}"
    return text


def _overlap(before: str, after: str) -> int:
    """Return the length of the longest end of one text that starts the other."""
    longest = min(len(before), len(after))
    return next((n for n in range(longest, 0, -1) if before.endswith(after[:n])), 0)
