"""The command line over a real knowledge base on the tiny model: answers, envelopes, exit codes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sphinx_project import Page, Project, build, child_environment

from doxtr_rag.cli.main import main
from doxtr_rag.cli.parser import COMMANDS, build_parser
from doxtr_rag.core.display import without_controls
from doxtr_rag.core.scope import Scope
from doxtr_rag.core.version import VERSION
from doxtr_rag.storage import open_store

pytestmark = pytest.mark.usefixtures("tiny_model_dir")

SCOPES = {"shared": Scope.SHARED_ORG, "chroma": Scope.LOCAL_PRIVATE}
PAGES = {
    "index": Page("Demo", [("Intro", "Welcome here.")], children=["guide", "notes"]),
    "guide": Page("Guide", [("Ports", "Open port 8000 for the server."), ("Logs", "Read logs.")]),
    "notes": Page("Notes", [("Plan", "Nobody may see the plan.")], scope="LOCAL_PRIVATE"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_model_dir):
    root = tmp_path_factory.mktemp("cli") / "work"
    Project(PAGES).write(root)
    assert build(root).status == 0
    return root


@pytest.fixture
def root(built, tmp_path, monkeypatch):
    copy = tmp_path / "work"
    shutil.copytree(built, copy)
    monkeypatch.chdir(copy / "source")
    return copy


@pytest.fixture
def answer(capsys):
    def ask(*arguments):
        code = main([*arguments, "--json"])
        captured = capsys.readouterr()
        assert captured.err == ""
        return code, json.loads(captured.out)

    return ask


HIT_FIELDS = [
    "rank",
    "id",
    "score",
    "document",
    "title",
    "breadcrumb",
    "section_id",
    "locator",
    "url",
    "citation",
    "quote",
    "scope",
    "project",
    "store",
    "text",
]


def test_search_answers_from_anywhere_in_the_project(root, answer):
    code, envelope = answer("search", "which port does the server open")
    assert (code, envelope["ok"], envelope["command"]) == (0, True, "search")
    data = envelope["data"]
    assert list(data["hits"][0]) == HIT_FIELDS
    best = next(hit for hit in data["hits"] if hit["id"] == "demo/guide#ports")
    assert best["breadcrumb"] == ["Guide", "Ports"]
    assert best["locator"] == {"kind": "anchor", "value": "ports", "end": None}
    assert best["citation"] == "[Guide §Ports]"
    assert best["quote"] in best["text"]
    assert {hit["store"] for hit in data["hits"]} == {"shared", "private"}
    assert data["degraded"] == []


def test_a_hit_opens_the_built_page(built, monkeypatch, capsys):
    monkeypatch.chdir(built)
    main(["search", "port server", "--json"])
    hits = json.loads(capsys.readouterr().out)["data"]["hits"]
    url = next(hit["url"] for hit in hits if hit["id"] == "demo/guide#ports")
    page, _, anchor = url.removeprefix("file://").partition("#")
    assert f'id="{anchor}"' in Path(page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        pytest.param("shared", {"SHARED_ORG"}, id="shared-by-its-name"),
        pytest.param("SHARED_ORG", {"SHARED_ORG"}, id="shared-by-its-scope"),
        pytest.param("private", {"LOCAL_PRIVATE"}, id="private-by-its-name"),
        pytest.param("LOCAL_PRIVATE", {"LOCAL_PRIVATE"}, id="private-by-its-scope"),
    ],
)
def test_a_scope_is_chosen_by_choosing_a_store(root, answer, scope, expected):
    _, envelope = answer("search", "plan port logs", "--scope", scope)
    assert {hit["scope"] for hit in envelope["data"]["hits"]} == expected


def test_top_k_bounds_the_hits(root, answer):
    _, envelope = answer("search", "port", "--top-k", "1")
    assert len(envelope["data"]["hits"]) == 1


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("", id="empty"),
        pytest.param(" ", id="blank"),
        pytest.param("'\"*()^:", id="syntax"),
        pytest.param("NEAR(a b)", id="near"),
        pytest.param("a\0b", id="nul"),
        pytest.param("\ud800", id="surrogate"),
        pytest.param("x" * 20_000, id="long"),
        pytest.param("AND OR NOT", id="operators"),
        pytest.param("😀", id="emoji"),
        pytest.param("-- ;", id="sql"),
    ],
)
def test_any_text_is_a_question(root, answer, query):
    code, envelope = answer("search", query)
    assert (code, envelope["ok"]) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        pytest.param([], "usage", 2, id="no-command"),
        pytest.param(["serch", "x"], "usage", 2, id="unknown-command"),
        pytest.param(["search"], "usage", 2, id="missing-query"),
        pytest.param(["search", "x", "--top-k", "0"], "usage", 2, id="top-k-too-small"),
        pytest.param(["search", "x", "--top-k", "many"], "usage", 2, id="top-k-no-number"),
        pytest.param(["search", "x", "--scope", "all"], "usage", 2, id="unknown-scope"),
        pytest.param(["status", "--why", "gide"], "unknown_document", 1, id="unknown-document"),
        pytest.param(["search", "x", "--conf", "/nowhere"], "config", 2, id="no-conf"),
        pytest.param(["fetch-weights", "--profile", "none"], "config", 2, id="unknown-profile"),
    ],
)
def test_errors_have_one_shape(root, answer, arguments, error, code):
    got, envelope = answer(*arguments)
    assert got == code
    assert (envelope["ok"], envelope["error"]) == (False, error)
    assert envelope["message"]


def test_an_unknown_document_gets_near_names(root, answer):
    _, envelope = answer("status", "--why", "gide")
    assert "did you mean guide" in envelope["message"]


def test_a_project_that_was_never_built_says_what_to_run(tmp_path, monkeypatch, answer):
    monkeypatch.chdir(tmp_path)
    code, envelope = answer("search", "x")
    assert (code, envelope["error"]) == (3, "index_not_built")
    assert "sphinx-build" in envelope["message"]


def test_a_conf_file_leads_to_its_stores(root, answer, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, envelope = answer("--conf", str(root / "source"), "search", "port")
    assert (code, envelope["command"]) == (0, "search")
    assert envelope["data"]["hits"]


def test_status_shows_stores_runs_and_failures(root, answer):
    code, envelope = answer("status")
    data = envelope["data"]
    assert code == 0
    assert data["project"] == "demo"
    assert data["stores"]["shared"]["chunks"] == 3
    assert data["stores"]["private"]["documents"] == 1
    assert data["last_runs"][0]["status"] == "succeeded"
    assert data["last_runs"][0]["report"]["embedded"] == 4
    assert data["failures"] == []


def test_status_says_who_decided(root, answer):
    _, envelope = answer("status", "--why", "notes")
    data = envelope["data"]
    assert data["scope"] == "LOCAL_PRIVATE"
    assert data["decided_by"]["origin"] == "document"
    assert [signal["origin"] for signal in data["signals"]] == ["path", "document"]
    assert answer("status", "--why", "source/notes.rst")[1]["data"]["scope"] == "LOCAL_PRIVATE"


def test_doctor_probes_every_store(root, answer):
    code, envelope = answer("doctor")
    assert code == 0, envelope
    assert envelope["data"]["can_search"] is True
    assert [check["name"] for check in envelope["data"]["checks"]] == [
        "runtime",
        "model",
        "shared",
        "private",
    ]


def test_doctor_fails_when_an_index_is_gone(root, answer):
    shutil.rmtree(root / ".doxtr" / "shared" / "index")
    code, envelope = answer("doctor")
    assert code == 1
    assert envelope["data"]["can_search"] is False
    assert envelope["error"] in {"index_dirty", "store_unavailable", "index_corrupt"}


def test_search_answers_without_an_index_and_says_so(root, answer):
    shutil.rmtree(root / ".doxtr" / "shared" / "index")
    code, envelope = answer("search", "port")
    assert code == 0
    assert "demo/guide#ports" in {hit["id"] for hit in envelope["data"]["hits"]}
    assert [item["code"] for item in envelope["data"]["degraded"]] == ["index_dirty"]


def test_a_damaged_store_degrades_the_answer_and_the_other_store_answers(root, answer):
    (root / ".doxtr" / "chroma" / "corpus.sqlite3").write_bytes(b"no database at all" * 100)
    code, envelope = answer("search", "port")
    assert code == 0
    assert {hit["store"] for hit in envelope["data"]["hits"]} == {"shared"}
    assert [item["code"] for item in envelope["data"]["degraded"]] == ["store_unavailable"]


def test_searching_makes_no_cache(root, answer):
    (root / ".doxtr" / "cache.db").unlink()
    assert answer("search", "port")[0] == 0
    assert not (root / ".doxtr" / "cache.db").exists()


@pytest.mark.parametrize("command", [["search", "x"], ["doctor"]], ids=["search", "doctor"])
def test_a_knowledge_base_that_no_build_filled_is_no_empty_answer(root, answer, command):
    for store in ("shared", "chroma"):
        shutil.rmtree(root / ".doxtr" / store)
        with open_store(root / ".doxtr" / store, SCOPES[store], store):
            pass
    code, envelope = answer(*command)
    assert code != 0
    assert envelope["error"] == "index_not_built"
    assert "run sphinx-build" in envelope["message"]


def test_rebuild_restores_the_index_without_a_model(root, answer, monkeypatch):
    shutil.rmtree(root / ".doxtr" / "shared" / "index")
    monkeypatch.setenv("TINY_MODEL_DIR", str(root))
    code, envelope = answer("rebuild", "--scope", "shared")
    assert code == 0, envelope
    assert envelope["data"]["stores"] == {"shared": 3}


def test_cache_info_lists_places_and_sizes(root, answer):
    _, envelope = answer("cache-info")
    sizes = {place["name"]: place["bytes"] for place in envelope["data"]["places"]}
    assert sizes["shared store"] > 0
    assert sizes["model"] > 0


def test_people_read_plain_text_when_piped(root, capsys):
    assert main(["search", "port server"]) == 0
    shown = capsys.readouterr().out
    assert "Guide > Ports" in shown
    assert "SHARED_ORG" in shown
    assert "\x1b" not in shown


def test_a_document_cannot_steer_the_terminal():
    assert without_controls("\x1b]0;title\x07a\tb\nc\x9b2J") == "a\tb\nc2J"


@pytest.mark.parametrize("command", ["status", "doctor", "cache-info"])
def test_every_report_is_readable(root, capsys, command):
    assert main([command]) == 0
    assert capsys.readouterr().out.strip()


def test_why_is_readable(root, capsys):
    main(["status", "--why", "notes"])
    assert "decided by document" in capsys.readouterr().out


def test_errors_go_to_standard_error_without_a_traceback(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["search", "x"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("doxtr-rag: no knowledge base")
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("command", [module.NAME for module in COMMANDS])
def test_help_has_examples(command, capsys):
    main([command, "--help"])
    shown = capsys.readouterr().out
    assert "examples:" in shown
    assert f"doxtr-rag {command}" in shown


def test_version(capsys):
    assert main(["--version"]) == 0
    assert VERSION in capsys.readouterr().out


def test_global_options_may_stand_on_either_side():
    parsed = build_parser().parse_args(["--json", "search", "x"])
    assert parsed.json
    assert build_parser().parse_args(["search", "x", "--json"]).json


@pytest.mark.parametrize(
    "options", [pytest.param([], id="for-people"), pytest.param(["--json"], id="for-programs")]
)
def test_a_reader_that_has_seen_enough_causes_no_traceback(root, options):
    asked = subprocess.Popen(
        [sys.executable, "-m", "doxtr_rag", "status", *options],
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    asked.stdout.close()
    assert asked.stderr.read() == ""
    asked.stderr.close()
    asked.wait()


@pytest.mark.parametrize("module", ["doxtr_rag", "doxtr_rag.cli"])
def test_it_runs_as_a_module(module):
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert VERSION in done.stdout
