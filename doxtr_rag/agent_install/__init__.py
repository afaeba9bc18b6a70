"""Puts doxtr-rag where coding agents look for it: an extension for Pi, MCP entries for others."""

from doxtr_rag.agent_install.clients import CLIENTS, Level
from doxtr_rag.agent_install.entries import (
    Wish,
    install_entry,
    print_entry,
    remove_entry,
    server_command,
)
from doxtr_rag.agent_install.pi import AGENT as PI
from doxtr_rag.agent_install.pi import install_extension, print_extension, remove_extension
from doxtr_rag.agent_install.places import SCOPES, Action, AgentPlaces, Report, find_places

__all__ = [
    "CLIENTS",
    "PI",
    "SCOPES",
    "Action",
    "AgentPlaces",
    "Level",
    "Report",
    "Wish",
    "find_places",
    "install_entry",
    "install_extension",
    "print_entry",
    "print_extension",
    "remove_entry",
    "remove_extension",
    "server_command",
]
