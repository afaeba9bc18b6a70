"""Builds, a server and readers of one knowledge base at the same time, each a process."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack

import knowledge_base
import pytest
from crash_cases import Journal, stories
from loopback import free_ports, port_settings
from store_checks import after_success
from watcher import ANSWERS, Watcher

from doxtr_rag import bootstrap
from doxtr_rag.servers.client import JsonClient
from doxtr_rag.storage import lock_holder

pytestmark = [pytest.mark.slow, pytest.mark.durability]

STORIES = {story.name: story for story in stories()}
READERS = 10
BUILDS = 2
PATIENCE_S = 60


def started(laboratory, root, arguments, output):
    with output.open("w") as stream:
        return subprocess.Popen(
            laboratory.command(root, arguments),
            env=laboratory.environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )


def wait_until(is_true):
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def root(laboratory, tmp_path):
    story = STORIES["all-changed"]
    return shutil.copytree(laboratory.before(story), tmp_path / "work", symlinks=True)


def test_a_second_build_of_a_project_waits_and_says_for_whom(laboratory, root, tmp_path):
    story = STORIES["all-changed"]
    before = Journal.of(root)
    arguments = story.write(root, story.after)
    outputs = [tmp_path / "first", tmp_path / "second"]
    store = root / ".doxtr" / "chroma"
    first = started(laboratory, root, arguments, outputs[0])
    wait_until(lambda: lock_holder(store) is not None)
    # It stops where it is, so that the other one has to wait.
    first.send_signal(signal.SIGSTOP)
    second = started(laboratory, root, arguments, outputs[1])
    wait_until(lambda: "waits for" in outputs[1].read_text())
    assert lock_holder(store).pid == first.pid
    first.send_signal(signal.SIGCONT)
    assert [first.wait(PATIENCE_S), second.wait(PATIENCE_S)] == [0, 0], outputs[1].read_text()
    said = outputs[1].read_text()
    assert f"waits for process {first.pid} on " in said
    assert "at most 60 s" in said
    embedded = Journal.of(root).embedded[len(before.embedded) :]
    assert len(embedded) == len(set(embedded)) > 0
    assert knowledge_base.difference(root, laboratory.scratch(story)) == []
    assert after_success(root) == []


def test_many_builds_of_one_project_take_turns(laboratory, root, tmp_path):
    story = STORIES["all-changed"]
    before = Journal.of(root)
    arguments = story.write(root, story.after)
    runs = [started(laboratory, root, arguments, tmp_path / f"{n}") for n in range(4)]
    assert [run.wait(PATIENCE_S) for run in runs] == [0] * 4
    embedded = Journal.of(root).embedded[len(before.embedded) :]
    assert len(embedded) == len(set(embedded)) > 0
    assert knowledge_base.difference(root, laboratory.scratch(story)) == []
    assert after_success(root) == []


def test_builds_of_two_projects_share_a_store(laboratory, tmp_path):
    story = STORIES["first-build"]
    roots = {name: tmp_path / name for name in ("one", "two")}
    shared = str(roots["one"] / ".doxtr" / "shared")

    def arguments(name, settings):
        return story.write(roots[name], story.after, project=name, settings=settings)

    runs = [
        started(laboratory, roots[name], arguments(name, settings), tmp_path / f"{name}.txt")
        for name, settings in (("one", {}), ("two", {"rag_shared_store_uri": shared}))
    ]
    said = [(tmp_path / f"{name}.txt").read_text() for name in roots]
    assert [run.wait(PATIENCE_S) for run in runs] == [0, 0], said
    held = knowledge_base.chunks(roots["one"], "SHARED_ORG")
    alone = knowledge_base.chunks(laboratory.scratch(story), "SHARED_ORG")
    for name in roots:
        texts = sorted(row["text"] for row in held.values() if row["project"] == name)
        assert texts == sorted(row["text"] for row in alone.values())
    assert after_success(roots["one"]) == []
    # A project that has nothing left takes only its own away.
    empty = {"p1": story.after["p1"]}
    runs = [
        started(
            laboratory,
            roots["two"],
            story.write(
                roots["two"], empty, project="two", settings={"rag_shared_store_uri": shared}
            ),
            tmp_path / "two.txt",
        ),
        started(laboratory, roots["one"], arguments("one", {}), tmp_path / "one.txt"),
    ]
    assert [run.wait(PATIENCE_S) for run in runs] == [0, 0]
    left = knowledge_base.chunks(roots["one"], "SHARED_ORG")
    assert {k for k in left if k.startswith("one/")} == {k for k in held if k.startswith("one/")}
    assert {row["document"] for k, row in left.items() if k.startswith("two/")} == {"p1"}


def test_builds_a_server_and_ten_readers(laboratory, tmp_path, monkeypatch):
    story, root = STORIES["all-changed"], tmp_path / "work"
    ports = port_settings(free_ports(3))
    for name in ("PYTHONPATH", "TINY_MODEL_DIR"):
        monkeypatch.setenv(name, laboratory.environment[name])
    done = laboratory.run(root, story.write(root, story.before, settings=ports))
    assert done.returncode == 0, done.stdout
    project = bootstrap.find_project(None, root)
    with ExitStack() as stack:
        readers = []
        for _ in range(READERS):
            readers.append(Watcher(laboratory.environment, (ANSWERS,)))
            stack.callback(readers[-1].close)
            readers[-1].watch(root, story.never, [], pause_s=0.2)
        server = bootstrap.start_detached(project)
        stack.callback(bootstrap.stop, project)
        client = JsonClient(server.endpoints.api_url)
        stack.callback(client.close)
        statuses = set()
        for n in range(BUILDS):
            state = story.after if n % 2 == 0 else story.before
            arguments = story.write(root, state, settings=ports)
            run = started(laboratory, root, arguments, tmp_path / f"{n}.txt")
            while run.poll() is None:
                statuses.add(bootstrap.server_status(project).health["stores"]["shared"]["state"])
                time.sleep(0.05)
            assert run.returncode == 0, (tmp_path / f"{n}.txt").read_text()
        reports = [reader.report() for reader in readers]
        assert bootstrap.server_status(project).pid == server.pid
    assert not [fault for report in reports for fault in report["faults"]]
    assert all(report["looks"] > BUILDS for report in reports)
    assert "ready" in statuses
    assert knowledge_base.difference(root, laboratory.before(story)) == []
    assert os.listdir(root / ".doxtr" / "shared" / "index")  # noqa: PTH208 - names are enough
