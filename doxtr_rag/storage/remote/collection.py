"""One collection of a Chroma server: found by name, asked by id (facts: chroma, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from doxtr_rag.core.errors import IndexNotBuiltError, StoreError
from doxtr_rag.storage.remote.connection import NOT_FOUND, Answer, RemoteConnection

PAGE = 5000
"""Records in one answer: SQLite stops at 32,766, and each comes with its metadata."""

ID_PAGE = 1000
BAD_REQUEST, CONFLICT, TOO_LARGE = 400, 409, 413
HNSW = {"space": "cosine", "ef_search": 400}
"""As the embedded index has it; other values are the server's defaults."""

Where = Mapping[str, Any]
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CollectionHead:
    """What a server says of a collection before it is asked for records."""

    collection_id: str
    dimension: int | None
    metadata: Mapping[str, Any]
    space: str

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the model that filled it, where that is said."""
        said = self.metadata.get("fingerprint")
        return said if isinstance(said, str) else None


class RemoteCollection:
    """A collection by its name; its id is looked up, and once more when it is gone."""

    def __init__(self, connection: RemoteConnection, name: str, known_id: str = "") -> None:
        self._connection = connection
        self._folder = f"{connection.address.database_path}/collections"
        self.name = name
        self.collection_id = known_id

    def find(self) -> CollectionHead | None:
        """Look the collection up; None when there is none.

        Raises:
            StoreError: the server cannot be asked.
        """
        path = f"{self._folder}/{quote(self.name, safe='')}"
        answer = self._connection.get(path, accept={NOT_FOUND})
        if answer.status == NOT_FOUND:
            self.collection_id = ""
            return None
        return self._head(answer)

    def create(self, metadata: Mapping[str, str]) -> CollectionHead:
        """Return the collection, made with tenant and database when missing.

        Raises:
            StoreReadOnlyError: the server lets us only read.
            StoreError: the server cannot be asked.
        """
        body = {
            "name": self.name,
            "get_or_create": True,
            "metadata": dict(metadata),
            "configuration": {"hnsw": HNSW},
        }
        answer = self._connection.write("POST", self._folder, body, accept={BAD_REQUEST, NOT_FOUND})
        if answer.status in (BAD_REQUEST, NOT_FOUND):
            self._make_database()
            answer = self._connection.write("POST", self._folder, body)
        return self._head(answer)

    def rename(self, name: str) -> None:
        """Give the collection another name."""
        self._connection.write("PUT", self._path(), {"new_name": name})
        self.name = name

    def describe(self, metadata: Mapping[str, Any]) -> None:
        """Replace what the collection says of itself."""
        self._connection.write("PUT", self._path(), {"new_metadata": dict(metadata)})

    def drop(self) -> None:
        """Remove the collection and its records; one that is gone is no error."""
        path = f"{self._folder}/{quote(self.name, safe='')}"
        self._connection.write("DELETE", path, None, accept={NOT_FOUND})
        self.collection_id = ""

    def count(self) -> int:
        """Return the number of records.

        Raises:
            IndexNotBuiltError: there is no such collection.
            StoreError: the server cannot be asked.
        """
        said = self._act(lambda path: self._connection.get(f"{path}/count", accept={NOT_FOUND}))
        if not isinstance(said.body, int):
            raise self._stranger()
        return said.body

    def records(
        self, where: Where | None, include: Sequence[str], page: int = PAGE
    ) -> Iterator[list[Record]]:
        """Yield the records that pass a filter, page by page, in the server's order.

        Raises:
            IndexNotBuiltError: there is no such collection.
            StoreError: the server cannot be asked.
        """
        offset = 0
        while True:
            found = self._got(
                {"limit": page, "offset": offset, "include": list(include)}
                | ({} if where is None else {"where": where})
            )
            if found:
                yield found
            offset += len(found)
            if len(found) < page:
                return

    def by_id(self, ids: Sequence[str], include: Sequence[str]) -> list[Record]:
        """Return the records of some ids, in the server's order; unknown ids are left out.

        Raises:
            StoreError: as `records` does.
        """
        pages = (ids[at : at + ID_PAGE] for at in range(0, len(ids), ID_PAGE))
        return [r for page in pages for r in self._got({"ids": page, "include": list(include)})]

    def nearest(self, vector: Sequence[float], count: int, include: Sequence[str]) -> list[Record]:
        """Return the records nearest to a vector, best first.

        Raises:
            StoreError: as `records` does.
        """
        body = {
            "query_embeddings": [list(vector)],
            "n_results": count,
            "include": list(include),
        }
        said = self._post("query", body)
        rows = {key: value[0] for key, value in said.items() if _is_nested(value)}
        return self._rows(rows, include)

    def upsert(self, body: Mapping[str, Any]) -> bool:
        """Insert or replace records; False when they are too many for one request.

        Raises:
            StoreReadOnlyError: the server lets us only read.
            StoreError: as `records` does.
        """
        return self._write("upsert", body, accept={NOT_FOUND, TOO_LARGE}).status != TOO_LARGE

    def delete(self, ids: Sequence[str], where: Where) -> None:
        """Delete records by id, as far as they pass a filter.

        Raises:
            StoreReadOnlyError: the server lets us only read.
            StoreError: as `records` does.
        """
        for at in range(0, len(ids), ID_PAGE):
            body = {"ids": ids[at : at + ID_PAGE], "where": where}
            self._write("delete", body, accept={NOT_FOUND})

    def _make_database(self) -> None:
        address = self._connection.address
        known = {NOT_FOUND, CONFLICT}
        for path, folder, name in (
            (address.tenant_path, "/api/v2/tenants", address.tenant),
            (address.database_path, f"{address.tenant_path}/databases", address.database),
        ):
            if self._connection.get(path, accept=known).status == NOT_FOUND:
                self._connection.write("POST", folder, {"name": name}, accept={CONFLICT})

    def _got(self, body: Mapping[str, Any]) -> list[Record]:
        return self._rows(self._post("get", body), body["include"])

    def _post(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        said = self._act(
            lambda path: self._connection.post(f"{path}/{verb}", body, accept={NOT_FOUND})
        )
        if not isinstance(said.body, dict):
            raise self._stranger()
        return said.body

    def _write(self, verb: str, body: Mapping[str, Any], accept: Collection[int]) -> Answer:
        return self._act(
            lambda path: self._connection.write("POST", f"{path}/{verb}", body, accept=accept)
        )

    def _act(self, ask: Callable[[str], Answer]) -> Answer:
        """Ask the collection by its id; a dropped one that was made anew has another."""
        is_looked_up = not self.collection_id
        if is_looked_up:
            self._require_found()
        answer = ask(self._path())
        if answer.status == NOT_FOUND and not is_looked_up:
            self._require_found()
            answer = ask(self._path())
        if answer.status == NOT_FOUND:
            raise self._missing()
        return answer

    def _require_found(self) -> None:
        if self.find() is None:
            raise self._missing()

    def _path(self) -> str:
        return f"{self._folder}/{quote(self.collection_id, safe='')}"

    def _head(self, answer: Answer) -> CollectionHead:
        said = answer.body if isinstance(answer.body, dict) else {}
        found, metadata = said.get("id"), said.get("metadata")
        settings = said.get("configuration_json")
        hnsw = settings.get("hnsw") if isinstance(settings, dict) else None
        dimension = said.get("dimension")
        if not isinstance(found, str):
            raise self._stranger()
        self.collection_id = found
        return CollectionHead(
            collection_id=found,
            dimension=dimension if isinstance(dimension, int) else None,
            metadata=metadata if isinstance(metadata, dict) else {},
            space=str(hnsw.get("space", "")) if isinstance(hnsw, dict) else "",
        )

    def _rows(self, said: Mapping[str, Any], include: Sequence[str]) -> list[Record]:
        """Return parallel lists as records, each with its `id` and what was included."""
        names = {"documents": "text", "metadatas": "metadata"} | {
            name: name.removesuffix("s") for name in ("embeddings", "distances")
        }
        columns = {names[key]: said.get(key) for key in include} | {"id": said.get("ids")}
        if not all(isinstance(column, list) for column in columns.values()):
            raise self._stranger()
        try:
            return [
                dict(zip(columns, values, strict=True))
                for values in zip(*columns.values(), strict=True)
            ]
        except ValueError as error:
            raise self._stranger() from error

    def _missing(self) -> IndexNotBuiltError:
        address = self._connection.address
        return IndexNotBuiltError(
            f"{address.origin} has no collection {self.name} in {address.database}: "
            "run sphinx-build"
        )

    def _stranger(self) -> StoreError:
        return StoreError(
            f"{self._connection.address.origin} does not answer as a Chroma server does: correct "
            "the address of the store"
        )


def _is_nested(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], list)
