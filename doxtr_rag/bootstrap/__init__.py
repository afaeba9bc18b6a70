"""The composition root: configuration in, ready engine and retriever out.

Heavy libraries are imported where they are needed and no earlier: a build without changes loads
neither a model runtime nor Chroma.
"""

from doxtr_rag.bootstrap.project import Project, fetch_weights, find_project, project
from doxtr_rag.bootstrap.reading import (
    Overview,
    Place,
    diagnose,
    document_record,
    overview,
    pages_folder,
    places,
    retriever,
)
from doxtr_rag.bootstrap.writing import ingest, rebuild
from doxtr_rag.storage import RunRecord, StoreStats

__all__ = [
    "Overview",
    "Place",
    "Project",
    "RunRecord",
    "StoreStats",
    "diagnose",
    "document_record",
    "fetch_weights",
    "find_project",
    "ingest",
    "overview",
    "pages_folder",
    "places",
    "project",
    "rebuild",
    "retriever",
]
