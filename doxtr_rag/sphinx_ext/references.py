"""Which pages show text of other pages: Sphinx leaves them as they are when that text changes.

A page is refreshed when a name that it refers to means something else than when it was resolved:
another title, another place, a figure number, or nothing any more. Names are compared by their
last word only, so the answer errs on the side of refreshing too many. What has no name, such as a
list of todos, has a mark instead: a word that no name has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from doxtr_rag.core.documents import Block, Section, digest

if TYPE_CHECKING:
    from sphinx.environment import BuildEnvironment

BEFORE_RESOLUTION = 5
"""Sphinx resolves references at priority 10."""

ALL_TODOS = " todos"
DIFF_LANGUAGE = "udiff"
OLD_FILE = "--- "

_WORD = re.compile(r"\w+")


def words_of(name: str) -> list[str]:
    """Return the runs of word characters of a name, lower case; one empty word for none."""
    return _WORD.findall(name.lower()) or [""]


def last_word(name: str) -> str:
    """Return the last of the words of a name."""
    return words_of(name)[-1]


def figures_of(docname: str) -> str:
    """Return the mark of the numbers before a page's own captions."""
    return f" figures {docname}"


def words_recorder(
    recorded: MutableMapping[str, tuple[str, ...]],
) -> type[SphinxPostTransform]:
    """Return a transform that notes, for each document, the words of its references."""

    class ReferenceWords(SphinxPostTransform):
        """Reads the references of a document before Sphinx resolves them; changes nothing."""

        default_priority = BEFORE_RESOLUTION

        def run(self, **kwargs: object) -> None:  # noqa: ARG002 - the signature is Sphinx's
            """Note the words of one document, or of a piece that another page lends it."""
            docname = self.env.docname
            is_page = str(self.document.get("source") or "") == str(self.env.doc2path(docname))
            known = () if is_page else recorded.get(docname, ())
            recorded[docname] = tuple(sorted({*known, *_words_in(self.document)}))

    return ReferenceWords


def _words_in(document: nodes.document) -> Iterator[str]:
    for node in document.findall(nodes.Element):
        if isinstance(node, addnodes.pending_xref):
            yield from words_of(str(node.get("reftarget", "")))
        elif type(node).__name__ == "todolist":
            yield ALL_TODOS


def inventory(env: BuildEnvironment) -> dict[str, str]:
    """Return the last word of every referable name -> a hash of all it refers to."""
    meanings: dict[str, list[tuple[object, ...]]] = {}
    for word, meaning in _meanings(env):
        meanings.setdefault(word, []).append(meaning)
    return {word: digest(sorted(map(repr, found)))[:16] for word, found in meanings.items()}


def _meanings(env: BuildEnvironment) -> Iterator[tuple[str, tuple[object, ...]]]:
    figures = {name: digest(_sorted(found)) for name, found in env.toc_fignumbers.items()}
    for domain in env.domains.values():
        for name, shown, kind, docname, anchor, _ in domain.get_objects():
            numbers = _numbers(env, docname, anchor) or figures.get(docname)
            meaning = (domain.name, kind, name, str(shown), docname, anchor)
            yield last_word(name), (*meaning, _section_number(env, docname, anchor), numbers)
    yield from _outside_domain_objects(env)
    for docname, hashed in figures.items():
        yield figures_of(docname), (hashed,)
    for docname, metadata in env.metadata.items():
        slugs = metadata.get("myst_slugs")
        if isinstance(slugs, Mapping):
            titles = sorted((slug, str(found[-1])) for slug, found in slugs.items())
            yield last_word(docname), ("heading", docname, titles)


def _outside_domain_objects(env: BuildEnvironment) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield what can be referred to and is in no domain's list of objects."""
    for label, (docname, number) in env.domaindata.get("math", {}).get("objects", {}).items():
        yield last_word(label), ("math", label, docname, number)
    for docname, todos in env.domaindata.get("todo", {}).get("todos", {}).items():
        for todo in todos:
            yield ALL_TODOS, (docname, todo["ids"], todo.astext())


def _section_number(env: BuildEnvironment, docname: str, anchor: str) -> object:
    return env.toc_secnumbers.get(docname, {}).get(f"#{anchor}" if anchor else "")


def _numbers(env: BuildEnvironment, docname: str, anchor: str) -> list[object]:
    """Return the number of the figure at a place; none when it is no figure's first id.

    A figure is numbered by its first id, which need not be the one that its label names.
    """
    found = env.toc_fignumbers.get(docname, {}).values()
    return [numbers[anchor] for numbers in found if anchor in numbers]


def _sorted(figures: Mapping[str, Mapping[str, object]]) -> list[tuple[str, str, object]]:
    return sorted((kind, i, number) for kind, ids in figures.items() for i, number in ids.items())


def changed_words(before: Mapping[str, str], after: Mapping[str, str]) -> frozenset[str]:
    """Return the words whose meaning differs between two inventories."""
    return frozenset(
        word for word in before.keys() | after.keys() if before.get(word) != after.get(word)
    )


def linked_documents(sections: Iterable[Section]) -> tuple[str, ...]:
    """Return the documents that sections link to."""
    blocks = (block for section in sections for block in section.blocks)
    return tuple(sorted({_document_of(link) for block in blocks for link in block.links}))


def without_links(sections: tuple[Section, ...], hidden: Collection[str]) -> tuple[Section, ...]:
    """Return sections whose links lead to none of some documents; their text stays as it is."""
    if not hidden:
        return sections
    return tuple(
        replace(section, blocks=tuple(_without_links(block, hidden) for block in section.blocks))
        for section in sections
    )


def _without_links(block: Block, hidden: Collection[str]) -> Block:
    links = tuple(link for link in block.links if _document_of(link) not in hidden)
    return replace(block, links=links)


def _document_of(link: str) -> str:
    return link.partition("#")[0]


def compared_files(document: nodes.document) -> tuple[str, ...]:
    """Return the files that `literalinclude` compares others with: Sphinx notes no dependency."""
    headers = (
        node.astext().partition("\n")[0]
        for node in document.findall(nodes.literal_block)
        if node.get("language") == DIFF_LANGUAGE and "source" in node
    )
    names = (line[len(OLD_FILE) :].strip() for line in headers if line.startswith(OLD_FILE))
    return tuple(sorted(set(filter(None, names))))
