"""One process over several loopback ports: found, run, and ended cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType

import uvicorn

from doxtr_rag.core.errors import DoxtrRagError
from doxtr_rag.servers.endpoints import LOOPBACK
from doxtr_rag.servers.gate import Gate

PORTS_TRIED = 200
BACKLOG = 2048
KEEP_ALIVE_S = 60
LOOK_EVERY_S = 0.2
SHUTDOWN_S = 5


class PortTakenError(DoxtrRagError):
    """No port can be had."""

    kind = "port_taken"
    exit_code = 3


def bind(wanted: Sequence[int], base: int, taken: Sequence[int] = ()) -> socket.socket:
    """Return a listening socket on the first of the wanted ports that is free, else from `base` up.

    Nothing is sent to whoever has a port already. `taken` are ports kept for something else.

    Raises:
        PortTakenError: none of `PORTS_TRIED` ports is free.
    """
    others = (port for port in range(base, base + PORTS_TRIED) if port not in taken)
    for port in [*wanted, *others]:
        with contextlib.suppress(PortTakenError):
            return bind_exactly(LOOPBACK, port)
    raise PortTakenError(
        f"no free port on {LOOPBACK}: tried {', '.join(map(str, wanted))} and {PORTS_TRIED} from "
        f"{base} up; set rag_embed_port or stop another program"
    )


def bind_exactly(host: str, port: int) -> socket.socket:
    """Return a listening socket on one address.

    Raises:
        PortTakenError: another program has it, or it is none of this machine's.
    """
    # With the protocol named asyncio sends small answers at once, else each waits 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Only for ports that an ended server left in TIME_WAIT: Linux shares no listening port.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise PortTakenError(f"{host}:{port} cannot be had ({reason}): choose another") from error
    return listener


def port_of(listener: socket.socket) -> int:
    """Return the port of a socket."""
    return int(listener.getsockname()[1])


def run(
    gate: Gate,
    listeners: Sequence[socket.socket],
    *,
    idle_s: float | None,
    when_ready: Callable[[], None],
    keep_found: Callable[[], bool] = lambda: True,
) -> None:
    """Serve until SIGTERM, SIGINT, or `idle_s` seconds without a request.

    `keep_found` is called all the time; once it says False, nobody can find this server.
    """
    to_stderr = logging.StreamHandler()
    to_stderr.setFormatter(_Discreet("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[to_stderr])
    config = uvicorn.Config(
        gate,
        lifespan="off",
        ws="none",
        access_log=False,
        server_header=False,
        date_header=False,
        log_level="warning",
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        backlog=BACKLOG,
    )
    server = _Server(config, gate, idle_s, when_ready, keep_found)
    asyncio.run(server.serve(sockets=list(listeners)))


class _Discreet(logging.Formatter):
    """Says what failed and where, but not in the error's own words, which may quote a question."""

    def formatException(  # noqa: N802 - the name it has in logging
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        """Return the kind of the error and the line that raised it."""
        kind, _, trace = ei
        places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(trace)]
        return f"{kind.__name__ if kind else 'unknown'} at {places[-1] if places else 'no line'}"


class _Server(uvicorn.Server):
    """Says when it is ready, ends when nobody asks; signals end it without being raised anew."""

    def __init__(
        self,
        config: uvicorn.Config,
        gate: Gate,
        idle_s: float | None,
        when_ready: Callable[[], None],
        keep_found: Callable[[], bool],
    ) -> None:
        super().__init__(config)
        self._gate = gate
        self._idle_s = idle_s
        self._when_ready = when_ready
        self._keep_found = keep_found

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until something ends it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        watch = asyncio.create_task(self._watch())
        try:
            await self._serve(sockets)
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    def _end(self) -> None:
        self.should_exit = True

    async def _watch(self) -> None:
        while not self.started:
            await asyncio.sleep(LOOK_EVERY_S / 10)
        self._gate.seen = time.monotonic()
        try:
            await asyncio.to_thread(self._when_ready)
            while await asyncio.to_thread(self._keep_found) and not self._is_idle():
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            self._end()

    def _is_idle(self) -> bool:
        if self._idle_s is None or self._gate.under_way:
            return False
        return time.monotonic() - self._gate.seen > self._idle_s
