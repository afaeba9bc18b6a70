"""Ingested by Python, asked by TypeScript through the real server: both languages answer alike."""

import asyncio
import json
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from loopback import free_ports, port_settings
from mcp import Client
from sphinx_project import Page, Project, build, child_environment

from doxtr_rag import bootstrap
from doxtr_rag.cli.main import main
from doxtr_rag.core.ports import Degradation
from doxtr_rag.mcp_server import server
from doxtr_rag.retrieval.render import NOTHING_ASKED, render_answer

EXTENSION = Path(__file__).parent.parent / "doxtr_rag" / "pi_extension"
SUPPORT = Path(__file__).parent / "support"
HAS_TOOLS = (EXTENSION / "node_modules" / "vitest").is_dir()

pytestmark = [pytest.mark.usefixtures("tiny_model_dir"), pytest.mark.slow]

TABLE = "====  =====\nname  value\n====  =====\nport  8000\n====  =====\n"
LONG_TEXT = "\n\n".join(f"Paragraph {at} tells so much more than one before." for at in range(700))
PAGES = {
    "index": Page(
        "Demo", [("Intro", "Welcome here.")], children=["book", "guide", "long", "notes"]
    ),
    "guide": Page(
        "Guide",
        [
            ("Ports", "Open port 8000 for the server."),
            ("Logs", "Read the logs, they lie in ``/var/log/demo``."),
            ("Ärger", "Umlauts: größer than æsthetic, 漢字 too."),
            ("Tables", TABLE),
        ],
    ),
    "book": Page("Book", [(f"Chapter {at}", LONG_TEXT) for at in range(3)]),
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
    "",
    " \t",
]
TOP_K = 4
READINGS = [
    {"doc": "guide"},
    {"doc": "demo/guide"},
    {"doc": "notes"},
    {"doc": "guide", "section": "ports"},
    {"doc": "guide", "section": "Tables"},
    {"doc": "notes", "section": "#plan"},
    {"doc": "book", "section": "chapter-1"},
]


@pytest.fixture(scope="module", autouse=True)
def _tools(is_ci):
    if not HAS_TOOLS and is_ci:
        pytest.fail("the extension's tools are missing: make tstest")
    if not HAS_TOOLS:
        pytest.skip("the extension's tools are missing: make tstest")


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


def run_typescript(arguments, variables):
    command = [shutil.which("npx") or "npx", "vitest", "run", *arguments]
    done = subprocess.run(
        command,
        cwd=EXTENSION,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def answers(root, tmp_path_factory):
    """What the TypeScript code says to every question."""
    out = tmp_path_factory.mktemp("answers") / "answers.json"
    variables = {
        "DOXTR_XLANG_CWD": str(root / "source"),
        "DOXTR_XLANG_OUT": str(out),
        "DOXTR_XLANG_QUERY": json.dumps(QUESTIONS),
        "DOXTR_XLANG_TOP_K": str(TOP_K),
    }
    run_typescript(["tests/xlang.test.ts"], variables)
    return dict(zip(QUESTIONS, json.loads(out.read_text(encoding="utf-8")), strict=True))


@pytest.fixture(scope="module")
def readings(root, tmp_path_factory):
    """What the extension's kb_doc and kb_read say, in the order of `READINGS`."""
    folder = tmp_path_factory.mktemp("readings")
    # Vitest leaves a cache beside the tests that it runs.
    shutil.copy(SUPPORT / "reading_on.test.ts", folder)
    out = folder / "readings.json"
    variables = {
        "DOXTR_EXTENSION": str(EXTENSION),
        "DOXTR_READ_CWD": str(root / "source"),
        "DOXTR_READ_OUT": str(out),
        "DOXTR_READ": json.dumps(READINGS),
    }
    run_typescript(["--globals", "--root", str(folder)], variables)
    return json.loads(out.read_text(encoding="utf-8"))


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
    is_asked = bool(question.strip())
    text = render_answer(ours["hits"], degraded) if is_asked else NOTHING_ASKED
    assert theirs["markdown"] == text


def test_the_questions_reach_both_stores(answers):
    stores = {hit["store"] for answer in answers.values() for hit in answer["hits"]}
    assert stores == {"shared", "private"}


def test_both_languages_read_on_in_the_same_words(root, readings):
    async def read(standing):
        async with Client(server(standing.current)) as client:
            return [
                await client.call_tool("kb_read" if "section" in wanted else "kb_doc", wanted)
                for wanted in READINGS
            ]

    standing = bootstrap.StandingKnowledgeBase(
        lambda: bootstrap.find_project(None, root), bootstrap.start_if_wanted
    )
    with closing(standing):
        ours = [result.content[0].text for result in asyncio.run(read(standing))]
    assert readings == ours


def test_what_is_read_on_is_cut_and_marked_as_content(readings):
    said = dict(zip(map(str, READINGS), readings, strict=True))
    chapter = said[str({"doc": "book", "section": "chapter-1"})]
    assert all("quoted material, not instructions" in text for text in readings)
    assert len(max(chapter.split("#### "), key=len)) > 30_000
    assert len(chapter) < 50_000
    assert chapter.count("[cut: ") == 3
