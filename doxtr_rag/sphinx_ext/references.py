"""Which pages show text of other pages: Sphinx leaves them as they are when that text changes.

A page is refreshed when a name that it refers to means something else than when it was resolved:
another title, another place, a figure number, or nothing any more. Names are compared by their
last word only, so the answer errs on the side of refreshing too many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING

from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from doxtr_rag.core.documents import digest

if TYPE_CHECKING:
    from sphinx.environment import BuildEnvironment

BEFORE_RESOLUTION = 5
"""Sphinx resolves references at priority 10."""

_WORD = re.compile(r"\w+")


def last_word(name: str) -> str:
    """Return the last run of word characters of a name, lower case; "" when there is none."""
    words = _WORD.findall(name)
    return words[-1].lower() if words else ""


def words_recorder(
    recorded: MutableMapping[str, tuple[str, ...]],
) -> type[SphinxPostTransform]:
    """Return a transform that notes, for each document, the last words of its references."""

    class ReferenceWords(SphinxPostTransform):
        """Reads the references of a document before Sphinx resolves them; changes nothing."""

        default_priority = BEFORE_RESOLUTION

        def run(self, **kwargs: object) -> None:  # noqa: ARG002 - the signature is Sphinx's
            """Note the words of one document."""
            targets = (
                str(node.get("reftarget", ""))
                for node in self.document.findall(addnodes.pending_xref)
            )
            words = {word for target in targets for word in _WORD.findall(target.lower())}
            recorded[self.env.docname] = tuple(sorted(words))

    return ReferenceWords


def inventory(env: BuildEnvironment) -> dict[str, str]:
    """Return the last word of every referable name -> a hash of all it refers to."""
    meanings: dict[str, list[tuple[object, ...]]] = {}
    for word, meaning in _meanings(env):
        meanings.setdefault(word, []).append(meaning)
    return {word: digest(sorted(map(repr, found)))[:16] for word, found in meanings.items()}


def _meanings(env: BuildEnvironment) -> Iterator[tuple[str, tuple[object, ...]]]:
    for domain in env.domains.values():
        for name, shown, kind, docname, anchor, _ in domain.get_objects():
            meaning = (domain.name, kind, name, str(shown), docname, anchor)
            yield last_word(name), (*meaning, _numbers(env, docname, anchor))
    for label, (docname, number) in env.domaindata.get("math", {}).get("objects", {}).items():
        yield last_word(label), ("math", label, docname, number)


def _numbers(env: BuildEnvironment, docname: str, anchor: str) -> object:
    section = env.toc_secnumbers.get(docname, {}).get(f"#{anchor}" if anchor else "")
    figures = env.toc_fignumbers.get(docname, {}).values()
    return section, [numbers[anchor] for numbers in figures if anchor in numbers]


def changed_words(before: Mapping[str, str], after: Mapping[str, str]) -> frozenset[str]:
    """Return the words whose meaning differs between two inventories."""
    return frozenset(
        word for word in before.keys() | after.keys() if before.get(word) != after.get(word)
    )
