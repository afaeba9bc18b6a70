"""In-memory ports for tests, ours and those of child themes; imports no test framework."""

from doxtr_rag.testing.models import HashEmbedder, WordCounter
from doxtr_rag.testing.records import Journal, MemoryCache, ProgressLog
from doxtr_rag.testing.stores import MemoryStore, stored

__all__ = [
    "HashEmbedder",
    "Journal",
    "MemoryCache",
    "MemoryStore",
    "ProgressLog",
    "WordCounter",
    "stored",
]
