"""Ingested by Python, asked by TypeScript through the real server: both languages answer alike."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from loopback import free_ports, port_settings
from sphinx_project import Page, Project, build, child_environment

from doxtr_rag import bootstrap
from doxtr_rag.cli.main import main
from doxtr_rag.core.ports import Degradation
from doxtr_rag.retrieval.render import render_answer

EXTENSION = Path(__file__).parent.parent / "doxtr_rag" / "pi_extension"
HAS_TOOLS = (EXTENSION / "node_modules" / "vitest").is_dir()

pytestmark = [
    pytest.mark.usefixtures("tiny_model_dir"),
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_TOOLS, reason="the extension's tools are missing: make tstest"),
]

TABLE = "====  =====\nname  value\n====  =====\nport  8000\n====  =====\n"
PAGES = {
    "index": Page("Demo", [("Intro", "Welcome here.")], children=["guide", "long", "notes"]),
    "guide": Page(
        "Guide",
        [
            ("Ports", "Open port 8000 for the server."),
            ("Logs", "Read the logs, they lie in ``/var/log/demo``."),
            ("Ärger", "Umlauts: größer than æsthetic, 漢字 too."),
            ("Tables", TABLE),
        ],
    ),
    "long": Page("Long", [("Story", " ".join(f"Sentence {at} tells more." for at in range(90)))]),
    "notes": Page(
        "Notes", [("Plan", "Nobody may see the plan."), ("Ports", "Private port 9000.")],
        scope="LOCAL_PRIVATE",
    ),
}  # fmt: skip
QUESTIONS = [
    "which port is open",
    "plan",
    "logs",
    "sentence 42",
    "größer",
    "漢字",
    "Ports",
    "/var/log/demo",
    'quoted "words" AND NOT (sql)',
    "name value table",
    "Nobody may see",
    "nothing of this is anywhere",
    "x" * 2000,
]
TOP_K = 4


@pytest.fixture(scope="module")
def root(tmp_path_factory, tiny_model_dir):
    root = tmp_path_factory.mktemp("xlang") / "work"
    Project(PAGES, port_settings(free_ports(3))).write(root)
    assert build(root).status == 0
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", child_environment()["PYTHONPATH"])
        project = bootstrap.find_project(None, root)
        bootstrap.start_detached(project)
        yield root
        bootstrap.stop(project)


@pytest.fixture(scope="module")
def answers(root, tmp_path_factory):
    """What the TypeScript code says to every question."""
    out = tmp_path_factory.mktemp("answers") / "answers.json"
    environment = {
        **os.environ,
        "DOXTR_XLANG_CWD": str(root / "source"),
        "DOXTR_XLANG_OUT": str(out),
        "DOXTR_XLANG_QUERY": json.dumps(QUESTIONS),
        "DOXTR_XLANG_TOP_K": str(TOP_K),
    }
    command = [shutil.which("npx") or "npx", "vitest", "run", "tests/xlang.test.ts"]
    done = subprocess.run(
        command, cwd=EXTENSION, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(zip(QUESTIONS, json.loads(out.read_text(encoding="utf-8")), strict=True))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda text: text[:20])
def test_both_languages_give_the_same_hits_in_the_same_words(
    root, answers, question, capsys, monkeypatch
):
    monkeypatch.chdir(root)
    assert main(["search", question, "--json", "--top-k", str(TOP_K)]) == 0
    ours = json.loads(capsys.readouterr().out)["data"]
    theirs = answers[question]
    for field in ("document", "url", "citation", "scope", "store", "title", "breadcrumb"):
        assert [hit[field] for hit in theirs["hits"]] == [hit[field] for hit in ours["hits"]]
    assert [hit["score"] for hit in theirs["hits"]] == pytest.approx(
        [hit["score"] for hit in ours["hits"]], abs=1e-6
    )
    degraded = [Degradation(d["code"], d["detail"]) for d in ours["degraded"]]
    assert theirs["markdown"] == render_answer(ours["hits"], degraded)


def test_the_questions_reach_both_stores(answers):
    stores = {hit["store"] for answer in answers.values() for hit in answer["hits"]}
    assert stores == {"shared", "private"}
