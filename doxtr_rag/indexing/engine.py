"""The one path from documents to stores: route, withdraw, embed, publish, index, record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from doxtr_rag.core.chunking import ChunkLimits, chunk_document
from doxtr_rag.core.documents import (
    DocumentChunk,
    DocumentContext,
    DocumentInput,
    Harvest,
    ScopedChunk,
    StoredHash,
    digest,
)
from doxtr_rag.core.errors import DocumentError, DoxtrRagError, ShrinkRefusedError
from doxtr_rag.core.ports import (
    ChunkStore,
    DocumentRecord,
    IngestCache,
    Progress,
    RunMark,
)
from doxtr_rag.core.runs import Control, Uncontrolled
from doxtr_rag.core.scope import AccessControl, Scope, ScopeDecision, ScopeSignal
from doxtr_rag.indexing.plan import (
    ChunkPlan,
    DocumentPlan,
    input_hash,
    lost_documents,
    plan_chunks,
    plan_documents,
)
from doxtr_rag.indexing.report import RunReport, ScopeCounts
from doxtr_rag.indexing.vectors import Model, Supply, VectorSupply
from doxtr_rag.indexing.withdrawal import Privacy, Withdrawal, privacy, withdraw_private

PUBLISH_ORDER = (Scope.SHARED_ORG, Scope.LOCAL_PRIVATE)
"""A document that becomes shared is found there before its private chunks go."""

PUBLISH_CHUNKS = 256
"""Chunks after which a transaction ends; a document is never split between two."""

NAMES_SHOWN = 10
NOTHING_TO_DO = ChunkPlan(changed=(), unchanged=(), deleted=(), added=0)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run may do, how long text is cut, who may stop it, which stores it leaves alone."""

    limits: ChunkLimits
    allow_shrink: bool = False
    control: Control = field(default_factory=Uncontrolled)
    skipped: frozenset[Scope] = frozenset()


@dataclass(slots=True)
class _Run:
    """What one run knows while it goes on."""

    harvest: Harvest
    known: Mapping[str, DocumentRecord]
    plan: DocumentPlan
    before: Mapping[Scope, frozenset[str]]
    privacy: Privacy
    withdrawal: Withdrawal
    routed: dict[Scope, list[ScopedChunk]] = field(
        default_factory=lambda: {scope: [] for scope in Scope}
    )
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def examined(self) -> frozenset[str]:
        """The documents whose stored chunks are compared."""
        changed = {item.document for item in self.plan.changed}
        return frozenset(changed - self.failures.keys()) | self.plan.removed


class IngestionEngine:
    """Routes, embeds and stores chunks; the only writer of stores and cache."""

    def __init__(
        self,
        *,
        model: Model,
        stores: Mapping[Scope, ChunkStore],
        cache: IngestCache,
        options: RunOptions,
        refresh_indexes: Callable[[Sequence[ChunkStore]], None],
        progress: Progress,
    ) -> None:
        self._model = model
        self._stores = stores
        self._cache = cache
        self._options = options
        self._refresh_indexes = refresh_indexes
        self._progress = progress
        self._control = options.control
        self._settings_hash = digest(options.limits.hash, model.fingerprint)

    def ingest(self, harvest: Harvest) -> RunReport:
        """Make the stores agree with the harvest, embedding only what is new.

        Raises:
            ParityError: a store belongs to another model.
            ShrinkRefusedError: more than half of a store would go.
            EmbeddingError: the model is missing or unusable; only withdrawals were done.
            StoreError: a store could not be written.
            RunStoppedError: somebody stopped the run; what it saved is kept.
        """
        run = self._begin(harvest)
        self._withdraw_documents(run)
        for store in self._stores.values():
            store.check_identity(harvest.project, self._model.fingerprint)
        is_nothing_new = run.plan.is_empty and not (harvest.kept or run.withdrawal.count)
        if is_nothing_new and self._are_current():
            return RunReport(documents=len(harvest.documents))
        self._control.begin()
        self._control.count("skipped", len(harvest.kept))
        self._chunk_and_route(run)
        stored = {scope: self._hashes(scope, harvest, run.examined) for scope in self._stores}
        plans = {scope: self._plan(scope, run, stored[scope]) for scope in self._stores}
        self._withdraw_chunks(run, plans, stored[Scope.SHARED_ORG])
        self._refuse_shrink(run, run.examined)
        supply = VectorSupply(self._model, self._stores, self._progress, self._control)
        supplied = supply.provide(plans)
        for scope in PUBLISH_ORDER:
            self._publish(harvest, scope, plans[scope], stored[scope])
        if plans[Scope.LOCAL_PRIVATE].changed:
            # What the shared store lost may be what the private one gained.
            self._shared.erase_deleted()
        self._index()
        self._record(run)
        plans = {s: plan for s, plan in plans.items() if s not in self._options.skipped}
        return _report(run, plans, supplied)

    def _index(self) -> None:
        for store in self._stores.values():
            store.seal(self._model.fingerprint, self._model.dimension)
        outdated = [store for store in self._stores.values() if not store.is_current()]
        self._progress("indexing", 0, len(outdated))
        self._refresh_indexes(outdated)
        self._progress("indexing", len(outdated), len(outdated))

    @property
    def _shared(self) -> ChunkStore:
        return self._stores[Scope.SHARED_ORG]

    def _begin(self, harvest: Harvest) -> _Run:
        try:
            recorded = self._cache.documents(harvest.project, harvest.origin)
            is_mark_current = self._is_mark_current(harvest)
        except DoxtrRagError:
            withdraw_private(harvest, self._shared)
            raise
        if is_mark_current:
            known: Mapping[str, DocumentRecord] = recorded
            before = {scope: _filled(recorded, scope) for scope in self._stores}
            stored: frozenset[str] = frozenset()
        else:
            known = {}
            before = {
                scope: frozenset(h.document for h in self._hashes(scope, harvest, None).values())
                for scope in self._stores
            }
            stored = frozenset(recorded).union(*before.values())
        return _Run(
            harvest,
            known,
            plan_documents(harvest, known, stored),
            before,
            privacy(harvest, known),
            Withdrawal(harvest, self._shared),
        )

    def _is_mark_current(self, harvest: Harvest) -> bool:
        mark = self._cache.mark(harvest.project, harvest.origin)
        return mark is not None and mark == self._mark(harvest)

    def _mark(self, harvest: Harvest) -> RunMark:
        revisions = {s: store.revision(harvest.project) for s, store in self._stores.items()}
        return RunMark(self._settings_hash, revisions)

    def _are_current(self) -> bool:
        return all(store.is_current() for store in self._stores.values())

    def _hashes(
        self, scope: Scope, harvest: Harvest, documents: frozenset[str] | None
    ) -> dict[str, StoredHash]:
        return self._stores[scope].hashes(harvest.project, harvest.origin, documents)

    def _plan(self, scope: Scope, run: _Run, stored: Mapping[str, StoredHash]) -> ChunkPlan:
        if scope in self._options.skipped:
            return NOTHING_TO_DO
        is_same_model = self._stores[scope].fingerprint() == self._model.fingerprint
        plan = plan_chunks(run.routed[scope], stored, is_same_model=is_same_model)
        # Nothing goes from here before it is where it belongs.
        waiting = {s.chunk.chunk_id for kept in self._options.skipped for s in run.routed[kept]}
        return replace(plan, deleted=tuple(i for i in plan.deleted if i not in waiting))

    def _withdraw_documents(self, run: _Run) -> None:
        """Take out of the shared store what can be told without a model.

        Where a document became private, one that is gone may be the same under another name.
        """
        changed = {item.document for item in run.plan.changed}
        going = run.withdrawal.private_documents(run.privacy.private)
        going |= run.withdrawal.withheld_titles(changed - run.privacy.private)
        refusal = self._shrink_refusal(run, run.plan.removed)
        if run.privacy.arrived and refusal is None:
            going |= run.withdrawal.removed_documents(run.plan.removed)
        self._withdraw(run, going)
        if refusal is not None:
            raise refusal

    def _withdraw_chunks(
        self, run: _Run, plans: Mapping[Scope, ChunkPlan], stored: Mapping[str, StoredHash]
    ) -> None:
        turned = {s.chunk.chunk_id for s in run.routed[Scope.LOCAL_PRIVATE]}
        going = {i: stored[i] for i in plans[Scope.SHARED_ORG].deleted if i in turned}
        if going:
            self._withdraw(run, going)

    def _withdraw(self, run: _Run, going: Mapping[str, StoredHash]) -> None:
        private = self._stores[Scope.LOCAL_PRIVATE]
        run.withdrawal.withdraw(going, self._model.fingerprint, private)

    def _chunk_and_route(self, run: _Run) -> None:
        total = len(run.plan.changed)
        for done, item in enumerate(run.plan.changed, start=1):
            try:
                chunks = self._chunk(run.harvest.project, item)
            except DocumentError as error:
                run.failures[item.document] = error.reason
                self._control.count("failed", 1)
            else:
                for chunk in chunks:
                    scoped = ScopedChunk(chunk, _decide(chunk.signals))
                    run.routed[scoped.scope].append(scoped)
            self._progress("chunking", done, total)
            self._control.checkpoint()

    def _chunk(self, project: str, item: DocumentInput) -> list[DocumentChunk]:
        return chunk_document(project, item, self._options.limits, self._model.counter())

    def _refuse_shrink(self, run: _Run, examined: frozenset[str]) -> None:
        refusal = self._shrink_refusal(run, examined)
        if refusal is not None:
            raise refusal

    def _shrink_refusal(self, run: _Run, examined: frozenset[str]) -> ShrinkRefusedError | None:
        filled = {s.chunk.document for chunks in run.routed.values() for s in chunks}
        emptied = examined - filled - run.privacy.moved(run.plan.removed)
        for scope, before in run.before.items():
            lost = lost_documents(before, before - emptied)
            if lost and not self._options.allow_shrink:
                return ShrinkRefusedError(_shrink_message(scope, before, lost))
        return None

    def _publish(
        self,
        harvest: Harvest,
        scope: Scope,
        plan: ChunkPlan,
        stored: Mapping[str, StoredHash],
    ) -> None:
        done, total = 0, len(plan.changed) + len(plan.deleted)
        for upserts, deletes in _transactions(plan, stored):
            self._stores[scope].publish(
                harvest.project, harvest.origin, self._model.fingerprint, upserts, deletes
            )
            done += len(upserts) + len(deletes)
            self._progress(f"storing {scope.value}", done, total)
            self._control.checkpoint()

    def _record(self, run: _Run) -> None:
        harvest = run.harvest
        chunks: dict[str, int] = {}
        for scoped in (s for scope in Scope for s in run.routed[scope]):
            chunks[scoped.chunk.document] = chunks.get(scoped.chunk.document, 0) + 1
        changed = {
            item.document: _document_record(
                item.context,
                "" if item.document in run.failures else input_hash(item),
                chunks.get(item.document, 0),
            )
            for item in run.plan.changed
        }
        for name, context in harvest.kept.items():
            # Without a hash the next run looks again; with a record it can still be pruned.
            changed[name] = _document_record(context, "", 0)
        self._cache.record(
            harvest.project, harvest.origin, self._mark(harvest), changed, run.plan.removed
        )


def _filled(recorded: Mapping[str, DocumentRecord], scope: Scope) -> frozenset[str]:
    return frozenset(name for name, r in recorded.items() if r.scope is scope and r.chunks)


def _decide(signals: tuple[ScopeSignal, ...]) -> ScopeDecision:
    return AccessControl.most_restrictive(signals)


def _document_record(context: DocumentContext, hash_: str, chunks: int) -> DocumentRecord:
    decision = _decide(context.signals)
    return DocumentRecord(
        input_hash=hash_,
        scope=decision.scope,
        chunks=chunks,
        source_file=context.source_file,
        signals=tuple(_as_row(signal) for signal in context.signals),
        decided_by=_as_row(decision.decided_by),
    )


def _as_row(signal: ScopeSignal) -> tuple[str, str | None, str]:
    return (signal.origin, signal.scope.value if signal.scope else None, signal.reason)


def _transactions(
    plan: ChunkPlan, stored: Mapping[str, StoredHash]
) -> Iterator[tuple[list[ScopedChunk], list[str]]]:
    """Group a plan by document, so that a reader never sees half of one."""
    by_document: dict[str, tuple[list[ScopedChunk], list[str]]] = {}
    for scoped in plan.changed:
        by_document.setdefault(scoped.chunk.document, ([], []))[0].append(scoped)
    for chunk_id in plan.deleted:
        by_document.setdefault(stored[chunk_id].document, ([], []))[1].append(chunk_id)
    upserts: list[ScopedChunk] = []
    deletes: list[str] = []
    for document_upserts, document_deletes in by_document.values():
        upserts += document_upserts
        deletes += document_deletes
        if len(upserts) + len(deletes) >= PUBLISH_CHUNKS:
            yield upserts, deletes
            upserts, deletes = [], []
    if upserts or deletes:
        yield upserts, deletes


def _shrink_message(scope: Scope, before: frozenset[str], lost: Sequence[str]) -> str:
    more = "" if len(lost) <= NAMES_SHOWN else f" and {len(lost) - NAMES_SHOWN} more"
    return (
        f"this run would remove {len(lost)} of {len(before)} documents from {scope.value}: "
        f"{', '.join(lost[:NAMES_SHOWN])}{more}. Nothing was removed. If that is meant, set "
        f"rag_allow_shrink = True for one build (sphinx-build -D rag_allow_shrink=1)"
    )


def _report(run: _Run, plans: Mapping[Scope, ChunkPlan], supplied: Supply) -> RunReport:
    counts = supplied.counts
    return RunReport(
        documents=len(run.harvest.documents) + len(run.harvest.kept),
        changed_documents=len(run.plan.changed),
        removed_documents=len(run.plan.removed),
        scopes={scope: _scope_counts(run, scope, plan) for scope, plan in plans.items()},
        withdrawn=run.withdrawal.count,
        embedded=counts.texts,
        reused_from=supplied.reused,
        donors=supplied.donors,
        embedding_s=round(supplied.embedding_s, 3),
        saved_s=supplied.saved_s,
        tokens=counts.tokens,
        padded_tokens=counts.padded_tokens,
        truncated=counts.truncated,
        kept=len(run.harvest.kept),
        failures={**run.harvest.failures, **run.failures},
    )


def _scope_counts(run: _Run, scope: Scope, plan: ChunkPlan) -> ScopeCounts:
    return ScopeCounts(
        added=plan.added,
        changed=len(plan.changed) - plan.added,
        removed=len(plan.deleted),
        unchanged=len(plan.unchanged) + _untouched(run, scope),
    )


def _untouched(run: _Run, scope: Scope) -> int:
    examined = run.examined
    records: Iterable[tuple[str, DocumentRecord]] = run.known.items()
    return sum(r.chunks for name, r in records if name not in examined and r.scope is scope)
