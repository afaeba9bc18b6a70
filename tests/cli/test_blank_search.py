"""`doxtr-rag search` without a question."""

import json

import pytest
from sphinx_project import Page, Project, build

from doxtr_rag import bootstrap
from doxtr_rag.cli.main import main

pytestmark = pytest.mark.usefixtures("tiny_model_dir")


@pytest.mark.parametrize("query", ["", " \t", "\x1b[0m"])
def test_a_blank_question_is_answered_without_opening_anything(
    tmp_path, tiny_model_dir, monkeypatch, capsys, query
):
    Project({"index": Page("Demo", [("Intro", "Hello.")])}, {"rag_serve": "off"}).write(tmp_path)
    assert build(tmp_path).status == 0
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(bootstrap, "knowledge_base")
    assert main(["search", query]) == 0
    assert capsys.readouterr().out.strip() == "Nothing to search for: the query is empty."
    assert main(["search", query, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data == {"hits": [], "nothing_relevant": True, "degraded": []}
