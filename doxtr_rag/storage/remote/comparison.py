"""What separates a server from a corpus, found with as few requests as can be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from doxtr_rag.storage.remote.manifest import Pair
from doxtr_rag.storage.remote.outbox import Outbox
from doxtr_rag.storage.remote.records import CorpusView, States, digest
from doxtr_rag.storage.remote.snapshot import RemoteLook, Snapshot


@dataclass(frozen=True, slots=True)
class Sealed:
    """The corpus as it should be served: its model, and the revision of each project."""

    fingerprint: str
    dimension: int
    revisions: Mapping[str, str]

    def revision(self, pair: Pair) -> str:
        """Return what changes with the chunks and with the model."""
        return f"{self.revisions.get(pair[0], '')} {self.fingerprint}"


@dataclass(slots=True)
class Difference:
    """What one project and origin needs on the server."""

    wanted: States
    upserts: list[str]
    deletes: list[str] = field(default_factory=list)
    present_keys: dict[str, Collection[str]] = field(default_factory=dict)


class Comparison:
    """Compares a corpus with a server."""

    def __init__(self, look: RemoteLook, corpus: CorpusView, outbox: Outbox) -> None:
        self._look = look
        self._corpus = corpus
        self._outbox = outbox

    def is_in_step(self, pair: Pair, snapshot: Snapshot, sealed: Sealed) -> bool:
        """Say whether the server has exactly the chunks of the corpus.

        Raises:
            StoreError: the server cannot be asked.
        """
        manifest = self._look.trusted(pair, snapshot)
        if manifest is None:
            is_unknown = pair in snapshot.manifests
            is_wanted = pair in self._corpus.pairs()
            return not (is_unknown or is_wanted or self._look.counted(pair, snapshot))
        if manifest.fingerprint != sealed.fingerprint:
            return False
        known = self._corpus_digest(pair, sealed)
        if known != manifest.digest:
            return False
        if self._outbox.left_digest(pair) != known:
            self._outbox.leave(pair, known, self._corpus.states(pair, sealed.fingerprint))
        return True

    def difference(
        self, pair: Pair, snapshot: Snapshot, sealed: Sealed, *, is_resent: bool
    ) -> Difference:
        """Return what the server needs; everything, when all is to be sent again.

        Raises:
            StoreError: the server cannot be asked.
        """
        wanted = self._corpus.states(pair, sealed.fingerprint)
        left = None if is_resent else self._left(pair, snapshot)
        if left is not None:
            return _differing(wanted, left)
        found = self._look.inventory(pair[0], snapshot)
        own = {key: r.state for key, r in found.items() if r.origin == pair[1]}
        strays = [key for key, r in found.items() if not r.origin and key not in wanted]
        made = _differing(wanted, {} if is_resent else own)
        made.deletes = [*(key for key in own if key not in wanted), *strays]
        made.present_keys = {key: found[key].keys for key in made.upserts if key in found}
        return made

    def _left(self, pair: Pair, snapshot: Snapshot) -> States | None:
        """Return what the server has for certain; None when it must be read."""
        manifest = self._look.trusted(pair, snapshot)
        if manifest is not None and manifest.digest == self._outbox.left_digest(pair):
            return self._outbox.left_records(pair)
        is_absent = pair not in snapshot.manifests and snapshot.is_accounted_for
        return {} if is_absent else None

    def _corpus_digest(self, pair: Pair, sealed: Sealed) -> str:
        revision = sealed.revision(pair)
        known = self._outbox.digest(pair, revision)
        if not known:
            known = digest(self._corpus.states(pair, sealed.fingerprint))
            self._outbox.keep_digest(pair, revision, known)
        return known


def _differing(wanted: States, present: States) -> Difference:
    return Difference(
        wanted,
        [chunk_id for chunk_id, state in wanted.items() if present.get(chunk_id) != state],
        [chunk_id for chunk_id in present if chunk_id not in wanted],
    )
