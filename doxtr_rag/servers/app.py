"""The routes of a server: its own on one port, a Chroma collection on the port of each store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from doxtr_rag.core.errors import DoxtrRagError
from doxtr_rag.servers import search_api
from doxtr_rag.servers.chroma_api import ChromaRoutes
from doxtr_rag.servers.embed_api import embed
from doxtr_rag.servers.failures import RequestError, parsed, status_of
from doxtr_rag.servers.gate import App, as_json
from doxtr_rag.servers.model import ModelHost
from doxtr_rag.servers.search_api import PageOf
from doxtr_rag.servers.stores import ServedStore

THREADS = 8
DATABASE = "/api/v2/tenants/{tenant}/databases/{database}"
ONE = DATABASE + "/collections/{collection_id}"
CHANGING = ("POST", "PUT", "PATCH", "DELETE")

Work = Callable[[], object]


class Threads:
    """Where blocking work goes: questions and embeddings apart, so that neither waits long."""

    def __init__(self) -> None:
        self._questions = ThreadPoolExecutor(THREADS, thread_name_prefix="questions")
        self._embeddings = ThreadPoolExecutor(THREADS, thread_name_prefix="embeddings")

    async def answer(self, work: Work, *, is_embedding: bool = False) -> Response:
        """Return what some blocking work gives as JSON, or the failure it foresaw."""
        pool = self._embeddings if is_embedding else self._questions
        loop = asyncio.get_running_loop()
        status, body = await loop.run_in_executor(pool, _answered, work)
        return _json(status, body)

    def close(self) -> None:
        """Let the threads end."""
        self._questions.shutdown(wait=False, cancel_futures=True)
        self._embeddings.shutdown(wait=False, cancel_futures=True)


def api_app(
    host: ModelHost,
    stores: Mapping[str, ServedStore],
    *,
    page_of: PageOf,
    health: Callable[[], dict[str, Any]],
    threads: Threads,
) -> App:
    """Return the application of the server's own port."""

    def store(request: Request) -> ServedStore:
        name = request.path_params["store"]
        if name not in stores:
            known = ", ".join(stores)
            raise RequestError(404, "unknown_store", f"no store of that name: there are {known}")
        return stores[name]

    def on_store(work: Callable[[ServedStore, Mapping[str, Any]], object]) -> Any:
        async def answer(request: Request) -> Response:
            body = await request.body()
            return await threads.answer(lambda: work(store(request), parsed(body)))

        return answer

    async def answer_health(_: Request) -> Response:
        return await threads.answer(health)

    search = partial(_search, host.names.dimension, page_of)
    routes = [
        Route("/health", answer_health, methods=["GET"]),
        Route("/embed", embedding_route(host, threads), methods=["POST"]),
        Route("/search/{store}", on_store(search), methods=["POST"]),
        Route(
            "/chunks/{store}",
            on_store(lambda s, body: search_api.chunks(s, page_of, body)),
            methods=["POST"],
        ),
        Route(
            "/document/{store}",
            on_store(lambda s, body: search_api.document(s, page_of, body)),
            methods=["POST"],
        ),
    ]
    return _application(routes)


def embedding_app(
    host: ModelHost, *, health: Callable[[], dict[str, Any]], threads: Threads
) -> App:
    """Return an application that serves a model alone."""

    async def answer_health(_: Request) -> Response:
        return await threads.answer(health)

    return _application(
        [
            Route("/health", answer_health, methods=["GET"]),
            Route("/embed", embedding_route(host, threads), methods=["POST"]),
        ]
    )


def embedding_route(host: ModelHost, threads: Threads) -> Any:
    """Return the handler of `/embed`."""

    async def answer(request: Request) -> Response:
        body = await request.body()
        return await threads.answer(lambda: embed(host, parsed(body)), is_embedding=True)

    return answer


def chroma_app(chroma: ChromaRoutes, threads: Threads) -> App:
    """Return the application of a store's port; every verb that changes something is refused."""

    def route(path: str, work: Callable[[Request, bytes], object], method: str = "GET") -> Route:
        async def answer(request: Request) -> Response:
            body = await request.body()
            return await threads.answer(lambda: work(request, body))

        return Route(path, answer, methods=[method])

    def placed(work: Callable[[Request, bytes], object]) -> Callable[[Request, bytes], object]:
        def checked(request: Request, body: bytes) -> object:
            chroma.database(request.path_params["tenant"], request.path_params["database"])
            return work(request, body)

        return checked

    def one(request: Request) -> str:
        return str(request.path_params["collection_id"])

    tenant, database = "/api/v2/tenants/{tenant}", DATABASE
    routes: list[BaseRoute] = [
        route("/api/v2", lambda *_: chroma.heartbeat()),
        route("/api/v2/heartbeat", lambda *_: chroma.heartbeat()),
        route("/api/v2/healthcheck", lambda *_: {"is_executor_ready": True}),
        route("/api/v2/version", lambda *_: "1.0.0"),
        route("/api/v2/pre-flight-checks", lambda *_: {"max_batch_size": 1}),
        route("/api/v2/auth/identity", lambda *_: chroma.identity()),
        route(tenant, lambda r, _: chroma.tenant(r.path_params["tenant"])),
        route(
            f"{tenant}/databases",
            lambda r, _: [chroma.database(r.path_params["tenant"], chroma.names.database)],
        ),
        route(
            database,
            lambda r, _: chroma.database(r.path_params["tenant"], r.path_params["database"]),
        ),
        route(f"{database}/collections", placed(lambda r, _: chroma.collections(r.query_params))),
        route(f"{database}/collections_count", placed(lambda *_: 1)),
        route(
            f"{database}/collections/by-id/{{collection_id}}",
            placed(lambda r, _: chroma.collection(collection_id=one(r))),
        ),
        route(ONE, placed(lambda r, _: chroma.collection(name=one(r)))),
        route(f"{ONE}/count", placed(lambda r, _: chroma.count(one(r)))),
        route(f"{ONE}/get", placed(lambda r, body: chroma.get(one(r), parsed(body))), "POST"),
        route(f"{ONE}/query", placed(lambda r, body: chroma.query(one(r), parsed(body))), "POST"),
        Route("/{path:path}", _refuse_change, methods=list(CHANGING)),
    ]
    return _application(routes)


def _search(
    dimension: int, page_of: PageOf, store: ServedStore, body: Mapping[str, Any]
) -> dict[str, Any]:
    return search_api.search(store, dimension, page_of, body)


def _application(routes: list[Any]) -> App:
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _http_failure, Exception: _unforeseen_failure},
    )
    app.router.redirect_slashes = False
    return app


async def _refuse_change(_: Request) -> Response:
    message = "the stores are written by builds alone: run sphinx-build"
    return _json(405, as_json({"error": "read_only", "message": message}))


async def _http_failure(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    is_change = status == 405 and request.method in CHANGING  # noqa: PLR2004 - HTTP
    kind = {404: "not_found", 405: "read_only" if is_change else "bad_method"}.get(status, "failed")
    message = "there is no such route" if status == 404 else "this route takes another method"  # noqa: PLR2004
    return _json(status, as_json({"error": kind, "message": message}))


async def _unforeseen_failure(*_: object) -> Response:
    message = "the server could not answer this request: its log says where it failed"
    return _json(500, as_json({"error": "failed", "message": message}))


def _answered(work: Work) -> tuple[int, bytes]:
    try:
        return 200, as_json(work())
    except DoxtrRagError as error:
        return status_of(error), as_json({"error": error.kind, "message": str(error)})


def _json(status: int, body: bytes) -> Response:
    return Response(
        body,
        status,
        headers={"cache-control": "no-store", "x-content-type-options": "nosniff"},
        media_type="application/json",
    )
