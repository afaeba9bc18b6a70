"""A knowledge base of a process that lives long: lent to questions, opened again when changed."""

import http.server
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from loopback import free_ports, port_settings
from sphinx_project import Page, Project, build, child_environment

from doxtr_rag import bootstrap
from doxtr_rag.bootstrap import asking, remotes
from doxtr_rag.bootstrap.pages import BuiltPages
from doxtr_rag.core.errors import IndexNotBuiltError
from doxtr_rag.core.scope import Scope
from doxtr_rag.servers.client import Identity, JsonClient

pytestmark = pytest.mark.usefixtures("tiny_model_dir")

PAGES = {
    "index": Page("Demo", [("Intro", "Welcome here.")], children=["guide", "notes"]),
    "guide": Page("Guide", [("Ports", "Open port 8000 for the server."), ("Logs", "Read logs.")]),
    "notes": Page("Notes", [("Plan", "Nobody may see the plan.")], scope="LOCAL_PRIVATE"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_model_dir):
    root = tmp_path_factory.mktemp("standing") / "work"
    Project(PAGES, {"rag_serve": "off"} | port_settings(free_ports(3))).write(root)
    assert build(root).status == 0
    return root


@pytest.fixture
def root(built, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", child_environment()["PYTHONPATH"])
    return shutil.copytree(built, tmp_path / "work")


@pytest.fixture
def standing(root):
    made = bootstrap.StandingKnowledgeBase(
        lambda: bootstrap.find_project(None, root), bootstrap.start_if_wanted
    )
    with closing(made):
        yield made


def asked(base):
    return [passage.chunk.document for passage in base.retriever.retrieve("port", top_k=3).passages]


def lent(standing):
    with standing.current() as base:
        return base


def test_it_stays_open_while_nothing_changes(standing):
    assert lent(standing) is lent(standing)


def test_other_settings_open_it_again(standing, root):
    before = lent(standing)
    settings = root / ".doxtr" / "settings.json"
    settings.write_text(settings.read_text() + "\n")
    with standing.current() as after:
        assert after is not before
        assert "guide" in asked(after)


def replace_stores(root, other):
    old, new = (bootstrap.find_project(None, folder).settings for folder in (root, other))
    for scope in Scope:
        folder = old.store_path(scope)
        fresh = shutil.copytree(new.store_path(scope), folder.with_name("fresh"))
        folder.rename(folder.with_name(f"{folder.name}.old"))
        fresh.rename(folder)


def test_a_replaced_store_is_seen_and_the_old_one_closes_after_its_last_use(
    standing, root, built, monkeypatch
):
    opened = []
    real = remotes.open_reader

    def recorded(*arguments):
        opened.append(real(*arguments))
        return opened[-1]

    monkeypatch.setattr(remotes, "open_reader", recorded)
    closed = []
    with standing.current() as before:
        for reader in opened:
            monkeypatch.setattr(
                reader, "close", lambda close=reader.close: closed.append(1) or close()
            )
        replace_stores(root, built)
        with standing.current() as after:
            assert after is not before
            assert "guide" in asked(after)
        assert not closed
        assert "guide" in asked(before)
    assert len(closed) == 2
    assert lent(standing) is after


def test_closing_waits_for_the_question_that_runs(standing):
    with standing.current() as base:
        standing.close()
        assert "guide" in asked(base)
    with standing.current() as again:
        assert again is not base


def test_a_project_that_goes_is_missed(standing, root):
    assert lent(standing)
    (root / ".doxtr" / "settings.json").unlink()
    with pytest.raises(IndexNotBuiltError), standing.current():
        pass


def test_many_questions_at_once_while_it_is_replaced(standing, root, built):
    def ask(at):
        if at == 10:
            replace_stores(root, built)
        with standing.current() as base:
            return "guide" in asked(base)

    lent(standing)
    with ThreadPoolExecutor(8) as threads:
        # Where a store is away for a moment, a question is refused; none meets a closed one.
        found = [threads.submit(ask, at) for at in range(40)]
    errors = [future.exception() for future in found]
    assert {type(error) for error in errors} <= {type(None), IndexNotBuiltError}
    assert errors.count(None) > 20
    with standing.current() as base:
        assert "guide" in asked(base)


@pytest.mark.slow
def test_a_server_that_comes_is_used_and_one_that_goes_is_missed(standing, root):
    project = bootstrap.find_project(None, root)
    assert lent(standing).client is None
    bootstrap.start_detached(project)
    try:
        with standing.current() as served:
            assert served.client is not None
            assert "guide" in asked(served)
        assert lent(standing) is served
        bootstrap.stop(project)
        assert not served.answers()
        with standing.current() as alone:
            assert alone.client is None
            assert "guide" in asked(alone)
    finally:
        bootstrap.stop(project)


class Stranger(http.server.BaseHTTPRequestHandler):
    """Whoever has the port of a server that ended: it agrees to everything."""

    def do_GET(self):
        self.server.asked.append(self.path.partition("?")[0])
        said = b'{"status": "ready", "proof": "00", "version": "1"}'
        self.send_response(200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        """Say nothing."""


def test_a_stranger_in_the_servers_place_is_no_answer(root):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever).start()
        pages = BuiltPages(bootstrap.find_project(None, root))
        with closing(JsonClient(f"http://127.0.0.1:{server.server_port}")) as client:
            client.authorise(Identity("kb", "0" * 64))
            assert not asking.KnowledgeBase(None, [], pages, client).answers()
        server.shutdown()
    assert server.asked == ["/identity"]


def test_pages_open_where_the_last_build_wrote_them(standing, root):
    with standing.current() as base:
        chunk = base.retriever.retrieve("port", top_k=1).passages[0].chunk
        # The copy still leads to the pages of the project that it was copied from.
        assert base.page_url(chunk).startswith("file:")
        assert str(root) not in base.page_url(chunk)
        assert build(root).status == 0
        assert base.page_url(chunk).startswith((root / "_build" / "html").as_uri())
        (root / "_build").rename(root / "away")
        assert not base.page_url(chunk).startswith("file:")
