"""Ports for servers that tests start."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody had a moment ago."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


def port_settings(ports: list[int]) -> dict[str, int]:
    """Return the settings of a project whose server asks for these ports."""
    return dict(zip(("rag_shared_port", "rag_private_port", "rag_embed_port"), ports, strict=True))
