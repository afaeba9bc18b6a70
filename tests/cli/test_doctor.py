"""`doxtr-rag doctor --deep` and `--recall`: both stores, with and without a server beside."""

import json
import shutil

import pytest
from loopback import free_ports, port_settings
from sphinx_project import Page, Project, build, child_environment

from doxtr_rag import bootstrap
from doxtr_rag.cli.main import main
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import chroma, open_reader
from doxtr_rag.storage.database import open_existing
from doxtr_rag.storage.generation import current, manifest, place
from doxtr_rag.storage.index_check import Comparison

pytestmark = pytest.mark.usefixtures("tiny_model_dir")

SECTIONS = [(f"Port {n}", f"Open port {n} for server number {n * n}.") for n in range(30)]
PAGES = {
    "index": Page("Demo", [("Intro", "Welcome here.")], children=["guide", "notes"]),
    "guide": Page("Guide", SECTIONS),
    "notes": Page("Notes", [("Plan", "Nobody may see the plan.")], scope="LOCAL_PRIVATE"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_model_dir):
    root = tmp_path_factory.mktemp("doctor") / "work"
    Project(PAGES, port_settings(free_ports(3))).write(root)
    assert build(root).status == 0
    return root


@pytest.fixture
def root(built, tmp_path, monkeypatch):
    copy = tmp_path / "work"
    shutil.copytree(built, copy)
    monkeypatch.chdir(copy)
    return copy


@pytest.fixture
def doctor(root, capsys):
    def ask(*arguments):
        code = main(["doctor", *arguments, "--json"])
        captured = capsys.readouterr()
        assert captured.err == ""
        envelope = json.loads(captured.out)
        return code, {check["name"]: check for check in envelope["data"]["checks"]}

    return ask


def lose_a_record(store):
    """Take one record out of an index in a way that no stamp shows; return its chunk's id."""
    name = current(store)
    collection = _collection(store)
    opened = chroma.open_generation(place(store, name), collection)
    opened.persist_after(1)
    opened.close()
    opened = chroma.open_generation(place(store, name), collection)
    lost = min(opened.records())
    opened.remove([lost])
    opened.close()
    database = open_existing(store)
    with database.writing() as connection:
        connection.execute("UPDATE index_state SET manifest = ?", (manifest(store, name),))
        row = connection.execute("SELECT id FROM chunks WHERE text_hash = ?", (lost,)).fetchone()
    database.close()
    return row[0]


def _collection(store):
    database = open_existing(store)
    with database.reading() as connection:
        row = connection.execute("SELECT collection FROM meta").fetchone()
    database.close()
    return row[0]


def test_deep_and_recall_look_at_both_stores(doctor):
    code, checks = doctor("--deep", "--recall")
    assert code == 0, checks
    assert list(checks)[4:] == ["shared index", "private index", "shared recall", "private recall"]
    figures = checks["shared index"]["figures"]
    assert figures["records"] == figures["sampled"] > 30
    assert (figures["missing"], figures["extra"], figures["differing"]) == (0, 0, 0)
    assert checks["shared recall"]["figures"]["recall_at_10"] == 1.0
    assert checks["shared recall"]["figures"]["questions"] == figures["records"]


def test_without_being_asked_no_index_is_compared(doctor):
    assert list(doctor()[1]) == ["runtime", "model", "shared", "private"]


def test_deep_names_what_is_missing_and_the_command_that_mends_it(doctor, root):
    lost = lose_a_record(root / ".doxtr" / "shared")
    code, checks = doctor("--deep")
    found = checks["shared index"]
    assert code == 1
    assert (found["ok"], found["code"]) == (False, "index_corrupt")
    assert found["figures"]["missing"] == 1
    assert lost in found["detail"]
    assert found["detail"].endswith("run doxtr-rag rebuild --scope shared")
    assert checks["private index"]["ok"]


def test_what_the_finding_says_to_run_mends_it(doctor, root, capsys):
    lose_a_record(root / ".doxtr" / "shared")
    assert main(["rebuild", "--scope", "shared"]) == 0
    capsys.readouterr()
    code, checks = doctor("--deep")
    assert code == 0, checks


def test_deep_and_recall_need_no_model(doctor, root, monkeypatch):
    monkeypatch.setenv("TINY_MODEL_DIR", str(root))
    code, checks = doctor("--deep", "--recall")
    assert code == 1
    assert not checks["model"]["ok"]
    assert checks["shared index"]["ok"]
    assert checks["shared recall"]["ok"]


def test_an_index_that_is_gone_is_a_finding_of_every_look(doctor, root):
    shutil.rmtree(root / ".doxtr" / "shared" / "index")
    code, checks = doctor("--deep", "--recall")
    assert code == 1
    for name in ("shared index", "shared recall"):
        assert checks[name]["code"] == "index_corrupt"
        assert "run doxtr-rag rebuild --scope shared" in checks[name]["detail"]


def test_a_low_recall_is_a_finding(doctor, root, monkeypatch):
    store = root / ".doxtr" / "shared"
    lose_a_record(store)
    code, checks = doctor("--recall")
    assert code == 1
    found = checks["shared recall"]
    assert not found["ok"]
    assert found["figures"]["recall_at_10"] < 0.99
    assert "99% are wanted: run doxtr-rag rebuild --scope shared" in found["detail"]


def test_beside_a_reader_that_has_the_index_open(doctor, root):
    store = root / ".doxtr" / "shared"
    with open_reader(store, Scope.SHARED_ORG, "shared") as reader:
        _, _, vector = reader.sample()
        before = reader.dense(vector, 5)
        assert doctor("--deep", "--recall")[0] == 0
        assert reader.dense(vector, 5) == before
        assert reader.degradations() == []


def test_beside_a_running_server(doctor, root, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", child_environment()["PYTHONPATH"])
    project = bootstrap.find_project(None)
    bootstrap.start_detached(project)
    try:
        code, checks = doctor("--deep", "--recall")
        assert code == 0, checks
        lose_a_record(root / ".doxtr" / "shared")
        assert not doctor("--deep")[1]["shared index"]["ok"]
    finally:
        bootstrap.stop(project)
    assert bootstrap.server_status(project) is None


def test_only_the_first_ten_are_named(root, monkeypatch):
    lost = Comparison(100, missing=tuple(f"guide#{n:03}" for n in range(25)))
    monkeypatch.setattr("doxtr_rag.bootstrap.index_health.compare", lambda folder: lost)
    project = bootstrap.find_project(None)
    (check, _) = bootstrap.diagnose(project, is_deep=True)[-2:]
    assert "25 chunks are missing: guide#000, " in check.detail
    assert "guide#009 and 15 more" in check.detail
    assert "guide#010" not in check.detail


def test_the_findings_are_readable(root, capsys):
    assert main(["doctor", "--deep", "--recall"]) == 0
    shown = capsys.readouterr().out
    assert "shared index: " in shown
    assert "of the 10 nearest chunks are found" in shown
