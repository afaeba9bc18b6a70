"""The composition root: configuration in, ready engine and retriever out.

Heavy libraries are imported where they are needed and no earlier: a build without changes loads
neither a model runtime nor Chroma.
"""

from doxtr_rag.bootstrap.asking import KnowledgeBase, StandingKnowledgeBase, knowledge_base
from doxtr_rag.bootstrap.controlling import request
from doxtr_rag.bootstrap.locking import BUILD_WAIT_S
from doxtr_rag.bootstrap.project import Project, fetch_weights, find_project, project
from doxtr_rag.bootstrap.reading import (
    Overview,
    Place,
    diagnose,
    document_record,
    overview,
    places,
)
from doxtr_rag.bootstrap.retrying import Effort, Retried, reharvest, retry
from doxtr_rag.bootstrap.runs_seen import FailureSeen, RunSeen
from doxtr_rag.bootstrap.serving import (
    DETACHED_IDLE_S,
    ServerStatus,
    serve,
    serve_after_build,
    server_status,
    start_detached,
    start_if_wanted,
    stop,
)
from doxtr_rag.bootstrap.writing import ingest, rebuild
from doxtr_rag.storage import StoreStats

__all__ = [
    "BUILD_WAIT_S",
    "DETACHED_IDLE_S",
    "Effort",
    "FailureSeen",
    "KnowledgeBase",
    "Overview",
    "Place",
    "Project",
    "Retried",
    "RunSeen",
    "ServerStatus",
    "StandingKnowledgeBase",
    "StoreStats",
    "diagnose",
    "document_record",
    "fetch_weights",
    "find_project",
    "ingest",
    "knowledge_base",
    "overview",
    "places",
    "project",
    "rebuild",
    "reharvest",
    "request",
    "retry",
    "serve",
    "serve_after_build",
    "server_status",
    "start_detached",
    "start_if_wanted",
    "stop",
]
