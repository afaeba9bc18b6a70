import logging
import sqlite3
import stat

import pytest

from doxtr_rag.core.errors import StoreUnavailableError
from doxtr_rag.core.ports import DocumentRecord, RunMark
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import BuildCache

MARK = RunMark("settings", {Scope.SHARED_ORG: "r1", Scope.LOCAL_PRIVATE: "r2"})
INTRO = DocumentRecord(
    input_hash="h1",
    scope=Scope.SHARED_ORG,
    chunks=3,
    source_file="intro.rst",
    signals=(("path", "SHARED_ORG", "docs/"), ("xlink", None, "no answer")),
    decided_by=("path", "SHARED_ORG", "docs/"),
)
USAGE = DocumentRecord("h2", Scope.LOCAL_PRIVATE, 1, "usage.rst")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kept" / "cache.db"


def cache(path):
    return BuildCache(path)


def test_an_unknown_project_has_no_mark(path):
    with cache(path) as made:
        assert made.mark("guide", "sphinx") is None
        assert made.documents("guide", "sphinx") == {}
        assert made.get_value("pages") is None


def test_a_run_is_remembered_by_another_process(path):
    with cache(path) as made:
        made.record("guide", "sphinx", MARK, {"intro": INTRO, "usage": USAGE}, ())
        made.record("guide", "mount", RunMark("other"), {}, ())
        made.set_value("pages", "one")
        made.set_value("pages", "two")
    with cache(path) as again:
        assert again.mark("guide", "sphinx") == MARK
        assert again.documents("guide", "sphinx") == {"intro": INTRO, "usage": USAGE}
        assert again.documents("guide", "mount") == {}
        assert again.get_value("pages") == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_changes_and_removals_are_recorded_together(path):
    with cache(path) as made:
        made.record("guide", "sphinx", MARK, {"intro": INTRO, "usage": USAGE}, ())
        made.record("guide", "sphinx", RunMark("next"), {"intro": USAGE}, ["usage", "unknown"])
        assert made.documents("guide", "sphinx") == {"intro": USAGE}
        assert made.mark("guide", "sphinx") == RunMark("next")


def database_with(*statements):
    def make(path):
        connection = sqlite3.connect(path)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()

    return make


def stripped(path):
    with cache(path) as made:
        made.set_value("a", "b")
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE documents")
    connection.commit()
    connection.close()


def aged(path):
    with cache(path) as made:
        made.set_value("pages", "old")
    database_with("PRAGMA user_version = 99")(path)


def torn(path):
    with cache(path) as made:
        made.record("guide", "sphinx", MARK, {str(n): INTRO for n in range(500)}, ())
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.write_bytes(b"garbage" * 99), id="not-a-database"),
        pytest.param(torn, id="torn"),
        pytest.param(stripped, id="without-a-table"),
        pytest.param(aged, id="another-version"),
        pytest.param(database_with("CREATE TABLE songs (title TEXT)"), id="foreign"),
    ],
)
def test_a_doubtful_file_is_replaced_by_an_empty_cache(path, spoil, caplog):
    path.parent.mkdir()
    spoil(path)
    with caplog.at_level(logging.WARNING), cache(path) as made:
        assert made.documents("guide", "sphinx") == {}
        made.record("guide", "sphinx", MARK, {"intro": INTRO}, ())
        assert made.documents("guide", "sphinx") == {"intro": INTRO}
    assert "starts empty" in caplog.text


def test_data_of_another_program_is_set_aside(path):
    path.parent.mkdir()
    database_with("CREATE TABLE songs (title TEXT)")(path)
    with cache(path) as made:
        made.set_value("a", "b")
    connection = sqlite3.connect(path.with_name("cache.db.foreign"))
    assert connection.execute("SELECT count(*) FROM songs").fetchone() == (0,)
    connection.close()


def test_a_folder_in_its_place_is_named(path):
    path.mkdir(parents=True)
    with pytest.raises(StoreUnavailableError, match="rag_cache_db"):
        cache(path).mark("guide", "sphinx")
