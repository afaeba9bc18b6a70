"""Small chunks with made-up vectors, for tests of the stores."""

import hashlib
import random
from array import array

from doxtr_rag.core.documents import DocumentChunk, Locator, ScopedChunk
from doxtr_rag.core.scope import Scope, ScopeDecision, ScopeSignal
from doxtr_rag.storage import index_process

DIMENSION = 8
MODEL = "f" * 64
OTHER_MODEL = "e" * 64
PROJECT, ORIGIN = "guide", "sphinx"


def vector(text, dimension=DIMENSION, model=MODEL):
    """A unit vector that depends on the text and the model alone."""
    seed = hashlib.sha256(f"{model}{text}".encode()).digest()
    source = random.Random(seed)  # noqa: S311 - a test's numbers
    numbers = [source.gauss(0, 1) for _ in range(dimension)]
    length = sum(number**2 for number in numbers) ** 0.5
    return array("f", [number / length for number in numbers]).tobytes()


def decision(scope):
    return ScopeDecision(scope, ScopeSignal("path", scope, "by the test"))


def chunk(anchor, text, *, scope=Scope.SHARED_ORG, project=PROJECT, document="intro"):
    return ScopedChunk(
        DocumentChunk(
            chunk_id=f"{project}/{document}#{anchor}",
            project=project,
            document=document,
            anchor=anchor,
            text=text,
            breadcrumb=("Manual", document.title(), f"About {anchor}"),
            url=f"{document}.html#{anchor}",
            source_file=f"{document}.rst",
            locator=Locator("line", 3, 9),
            links=("other#there",),
            metadata={"role": "how-to", "level": 2},
            tokens=len(text.split()),
        ),
        decision(scope),
    )


def save(store, chunks, model=MODEL, dimension=DIMENSION):
    texts = {scoped.chunk.text_hash: scoped.chunk.text for scoped in chunks}
    store.save_vectors(model, {h: vector(t, dimension, model) for h, t in texts.items()})


def publish(store, chunks, deletes=(), *, project=PROJECT, model=MODEL, origin=ORIGIN):
    save(store, chunks, model)
    store.publish(project, origin, model, chunks, deletes)


def fill(store, chunks, **options):
    """Publish, seal and index."""
    publish(store, chunks, **options)
    store.seal(options.get("model", MODEL), DIMENSION)
    index(store)


def index(store):
    """Do here what `refresh_index` has a child process do, which takes most of a second."""
    if store.prepare_refresh():
        index_process.refresh(store.folder)


def ids(hits):
    return [hit.chunk_id for hit in hits]
