"""Everything this package raises on purpose.

DoxtrRagError
├── ConfigError                  a setting is missing or contradicts another
├── DocumentError                one document failed; the run goes on without it
│   ├── UnsupportedFormatError
│   ├── CorruptDocumentError
│   ├── LimitExceededError
│   └── UnknownDocumentError     no document of that name was ever seen
├── EmbeddingError
│   ├── WeightsMissingError      names the command that fetches them
│   ├── WeightsCorruptError      bytes differ from the pinned ones
│   ├── ProviderFallbackError    the execution provider asked for did not start
│   └── ParityError              the store holds vectors of another model
├── StoreError
│   ├── StoreUnavailableError    cannot be opened or written: full disk, damaged file
│   │   └── StoreUnreachableError    the Chroma server of a store does not answer
│   ├── StoreAccessError         the Chroma server of a store wants other headers
│   ├── StoreReadOnlyError
│   ├── StoreLockedError         another process owns it
│   ├── StoreSchemaError         written by a newer version
│   ├── IndexNotBuiltError       nothing was ever stored
│   └── ServerGoneError          the server of the stores does not answer; an EmbeddingError too
├── ShrinkRefusedError           one run would remove more than half of a store
└── ScopeViolationError          a private chunk reached a shared store; never caught

`kind` is the word of the JSON envelope and of status reasons (retrieval R51); `exit_code` is the
command line's.
"""

from __future__ import annotations


class DoxtrRagError(Exception):
    """Base class: `except DoxtrRagError` means "anything we foresaw"."""

    kind = "failed"
    exit_code = 1


class ConfigError(DoxtrRagError):
    """A setting is missing, malformed or contradicts another."""

    kind = "config"
    exit_code = 2


class DocumentError(DoxtrRagError):
    """One document could not be turned into chunks."""

    kind = "document"

    def __init__(self, document: str, reason: str) -> None:
        super().__init__(f"{document}: {reason}")
        self.document = document
        self.reason = reason


class UnsupportedFormatError(DocumentError):
    """No extractor is registered for the document's extension."""


class CorruptDocumentError(DocumentError):
    """The extractor for this format could not read the bytes."""


class LimitExceededError(DocumentError):
    """A document is larger than a stated limit."""


class UnknownDocumentError(DocumentError):
    """No document of that name was ever seen."""

    kind = "unknown_document"


class EmbeddingError(DoxtrRagError):
    """Text could not be turned into vectors."""

    kind = "embedding"


class WeightsMissingError(EmbeddingError):
    """A model's files are not on this machine."""

    kind = "weights_missing"
    exit_code = 3


class WeightsCorruptError(EmbeddingError):
    """A model's files are not the pinned ones."""

    kind = "weights_corrupt"
    exit_code = 3


class ProviderFallbackError(EmbeddingError):
    """The execution provider asked for could not be used."""

    kind = "provider_fallback"
    exit_code = 3


class ParityError(EmbeddingError):
    """The store holds vectors of another model."""

    kind = "identity_mismatch"


class StoreError(DoxtrRagError):
    """A store could not do what was asked."""

    kind = "store"


class StoreUnavailableError(StoreError):
    """The store cannot be opened or written."""

    kind = "store_unavailable"


class StoreUnreachableError(StoreUnavailableError):
    """The Chroma server that a store lies on does not answer."""

    kind = "unreachable"
    exit_code = 3


class StoreAccessError(StoreError):
    """The Chroma server that a store lies on wants other headers."""

    kind = "access_denied"
    exit_code = 3


class StoreReadOnlyError(StoreError):
    """The store's folder, or the server it lies on, does not accept writes."""

    kind = "read_only"


class StoreLockedError(StoreError):
    """Another process owns the store."""

    kind = "store_locked"


class StoreSchemaError(StoreError):
    """The store was written by a version of this package that is newer than this one."""

    kind = "store_schema"


class IndexNotBuiltError(StoreError):
    """Nothing was ever stored here."""

    kind = "index_not_built"
    exit_code = 3


class ServerGoneError(StoreError, EmbeddingError):
    """The knowledge base's server does not answer, or something else answers in its place."""

    kind = "store_server_down"
    exit_code = 3


class ShrinkRefusedError(DoxtrRagError):
    """One run would remove more than half of a store."""

    kind = "shrink_refused"


class ScopeViolationError(DoxtrRagError):
    """A chunk that is not SHARED_ORG was addressed to a shared store."""

    kind = "scope_violation"


def error_of_kind(kind: str, message: str) -> DoxtrRagError:
    """Return the exception that a kind stands for, as a server or an envelope named it."""
    return _by_kind(DoxtrRagError).get(kind, DoxtrRagError)(message)


def _by_kind(base: type[DoxtrRagError]) -> dict[str, type[DoxtrRagError]]:
    """Return every exception that is made of a message alone, by its kind."""
    found = {} if issubclass(base, DocumentError) else {base.kind: base}
    for child in base.__subclasses__():
        found = _by_kind(child) | found
    return found
