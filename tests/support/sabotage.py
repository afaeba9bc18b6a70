"""Broken guards, each of which the checks of the crash harness must find.

`apply` is called in the process of a run and, since it changes how that one starts its index
process, there as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

NONE = "none"


def apply(name: str) -> None:
    """Break one guard of this process and of the index process that it will start."""
    if name == NONE:
        return
    from doxtr_rag.storage import index_refresh  # noqa: PLC0415 - an index process has its own

    BROKEN[name]()
    support = str(Path(__file__).parent)
    prelude = f"import sys; sys.path.append({support!r}); import sabotage; "
    index_refresh.CHILD_CODE = (
        f"{prelude}sabotage.BROKEN[{name!r}](); sys.path.remove({support!r}); "
        + index_refresh.CHILD_CODE
    )


def documents_are_split() -> None:
    """Publish every chunk in a transaction of its own."""
    from doxtr_rag.indexing import engine  # noqa: PLC0415

    whole = engine._transactions

    def split(plan, stored):
        for upserts, deletes in whole(plan, stored):
            yield from (([chunk], []) for chunk in upserts)
            yield from (([], [chunk_id]) for chunk_id in deletes)

    engine._transactions = split


def vectors_come_last() -> None:
    """Publish chunks first and save their vectors afterwards."""
    from doxtr_rag.storage import publication  # noqa: PLC0415
    from doxtr_rag.storage.store import EmbeddedStore  # noqa: PLC0415

    save, seal = EmbeddedStore.save_vectors, EmbeddedStore.seal

    def later(self, fingerprint, vectors):
        self.__dict__.setdefault("late", []).append((fingerprint, vectors))

    def seal_after_all(self, fingerprint, dimension):
        for waiting in self.__dict__.pop("late", []):
            save(self, *waiting)
        seal(self, fingerprint, dimension)

    EmbeddedStore.save_vectors, EmbeddedStore.seal = later, seal_after_all
    publication.require_vectors = lambda *_: None


def nobody_inherits() -> None:
    """Withdraw chunks without giving their vectors to the private store."""
    from doxtr_rag.indexing.withdrawal import Withdrawal  # noqa: PLC0415

    Withdrawal._bequeath = lambda *_: None


def withdrawal_waits() -> None:
    """Leave what turned private to the ordinary deletion at the end of a run."""
    from doxtr_rag.indexing.withdrawal import Withdrawal  # noqa: PLC0415

    Withdrawal.withdraw = lambda *_: None


def texts_pass_through_the_shared_folder() -> None:
    """Keep a draft of every text for a moment where only shared ones may lie."""
    from doxtr_rag.storage.store import EmbeddedStore  # noqa: PLC0415

    publish = EmbeddedStore.publish

    def drafted(self, project, origin, fingerprint, upserts, deletes):
        draft = self.folder.parent / "shared" / "draft.txt"
        draft.write_text("\n".join(scoped.chunk.text for scoped in upserts))
        publish(self, project, origin, fingerprint, upserts, deletes)
        draft.unlink()

    EmbeddedStore.publish = drafted


def generations_stay() -> None:
    """Leave every generation where it is."""
    from doxtr_rag.storage import generation  # noqa: PLC0415

    generation.remove_others = lambda *_: None


def index_is_marked_first() -> None:
    """Call a generation current before it is written."""
    from doxtr_rag.storage import generation  # noqa: PLC0415

    begin = generation.begin

    def in_use(folder):
        name = begin(folder)
        generation.swap(folder, name)
        with closing(sqlite3.connect(folder / "corpus.sqlite3")) as corpus, corpus:
            corpus.execute(
                "UPDATE index_state SET (fingerprint, revision) = "
                "(SELECT fingerprint, revision FROM meta), generation = ?, dirty = 0, "
                "must_rebuild = 0, manifest = '{}'",
                (name,),
            )
        return name

    generation.begin = in_use


BROKEN: dict[str, Callable[[], None]] = {
    made.__name__: made
    for made in (
        documents_are_split,
        vectors_come_last,
        nobody_inherits,
        withdrawal_waits,
        texts_pass_through_the_shared_folder,
        generations_stay,
        index_is_marked_first,
    )
}
