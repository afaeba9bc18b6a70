from pathlib import Path

import pytest

from doxtr_rag import bootstrap


@pytest.fixture
def project(tmp_path):
    """A project with private pages that nothing was stored of yet."""
    root = tmp_path / "project"
    (root / "source").mkdir(parents=True)
    return project_at(root)


def project_at(root: Path, **settings: object) -> bootstrap.Project:
    (root / "source").mkdir(parents=True, exist_ok=True)
    return bootstrap.project(
        {"rag_embedding_provider": "minilm-offline", "rag_root": "..", **settings},
        conf_dir=root / "source",
        source_dir=root / "source",
        sphinx_project="Demo",
        language=None,
        html_baseurl="",
    )
