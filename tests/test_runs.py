"""Runs in processes of their own: seen while they work, paused, cancelled, killed, gone on with."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from sphinx_project import child_environment

from doxtr_rag.cli.main import main

pytestmark = pytest.mark.usefixtures("tiny_model_dir")

SUPPORT = Path(__file__).parent / "support"
SECTIONS, PAGES = 30, 20
PATIENCE_S = 60.0


@pytest.fixture
def root(tmp_path, monkeypatch):
    (tmp_path / "project" / "source").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "journal"
    path.touch()
    return path


def pages(count=PAGES):
    return {
        f"p{n}": [
            "LOCAL_PRIVATE" if n % 3 == 0 else "SHARED_ORG",
            [
                [f"s{m}", f"Part {m}", f"page {n} section {m} " + "word " * 8]
                for m in range(SECTIONS)
            ],
        ]
        for n in range(count)
    }


@pytest.fixture
def start(root, journal, tmp_path):
    """Start a run; it embeds a batch in so many seconds."""
    started = []

    def begin(seconds=0.0, **spec):
        path = tmp_path / "spec.json"
        path.write_text(json.dumps({"root": str(root), "pages": pages(), **spec}))
        command = [sys.executable, str(SUPPORT / "paced_run.py"), str(seconds), str(journal)]
        process = subprocess.Popen(
            [*command, "none", "ingest", str(path)],
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def lines(journal, word):
    return [line.split()[1] for line in journal.read_text().splitlines() if line.startswith(word)]


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)


@pytest.fixture
def ask(capsys):
    def ask(*arguments):
        code = main([*arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture
def last(ask, root):
    """Return the last run as `status` tells it; nothing before the settings are there."""

    def last():
        if not (root / ".doxtr" / "settings.json").exists():
            return {"status": None}
        code, envelope = ask("status")
        assert code == 0, envelope
        return (
            envelope["data"]["last_runs"][0] if envelope["data"]["last_runs"] else {"status": None}
        )

    return last


def test_a_killed_run_is_seen_and_its_vectors_are_not_made_again(start, journal, last):
    process = start(seconds=0.1)
    until(lambda: lines(journal, "save"))
    assert last()["status"] == "running"
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = last()
    assert (killed["status"], killed["health"]) == ("interrupted", None)
    assert 0 < killed["progress"]["embedded"] <= killed["progress"]["total"]
    saved, first = set(lines(journal, "save")), len(lines(journal, "embed"))
    again = start()
    assert again.wait(PATIENCE_S) == 0, again.stdout.read()
    second = lines(journal, "embed")[first:]
    assert saved
    assert not saved & set(second)
    assert saved | set(second) >= set(lines(journal, "embed"))
    assert len(saved | set(second)) == PAGES * SECTIONS
    assert last()["status"] == "succeeded"
    assert last()["report"]["reuse"]["from"] == {"same store": len(saved)}


def test_status_shows_a_run_at_work(start, journal, last, capsys):
    process = start(seconds=0.1)
    until(lambda: last()["status"] == "running" and last()["progress"]["embedded"] > 0)
    run = last()
    assert (run["health"], run["pid"], run["finished"]) == ("steady", process.pid, "")
    assert (run["progress"]["phase"], run["progress"]["total"]) == ("embedding", PAGES * SECTIONS)
    assert run["duration_seconds"] > 0
    main(["status"])
    assert f"running for {run['duration_seconds']:.0f}"[:12] in capsys.readouterr().out


def test_a_cancelled_run_ends_red_and_the_next_one_embeds_only_the_rest(start, journal, ask, last):
    process = start(seconds=0.1)
    until(lambda: last()["status"] == "running" and lines(journal, "embed"))
    code, envelope = ask("cancel", "--wait", "30")
    assert (code, envelope["data"]["run"]["status"]) == (0, "canceled")
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "FAILED canceled: run" in output
    assert "goes on from there" in output
    again = start()
    assert again.wait(PATIENCE_S) == 0, again.stdout.read()
    assert set(Counter(lines(journal, "embed")).values()) == {1}
    assert len(lines(journal, "embed")) == PAGES * SECTIONS
    assert last()["status"] == "succeeded"


def test_a_paused_run_waits_with_its_locks_and_goes_on(start, journal, ask, last):
    process = start(seconds=0.1)
    until(lambda: last()["status"] == "running" and lines(journal, "embed"))
    code, envelope = ask("pause", "--wait", "30")
    run = envelope["data"]["run"]
    assert (code, run["status"], run["health"]) == (0, "paused", "steady")
    before = journal.read_text()
    code, envelope = ask("rebuild", "--wait", "0")
    assert (code, envelope["error"]) == (1, "store_locked")
    assert f"process {process.pid}" in envelope["message"]
    time.sleep(0.5)
    assert journal.read_text() == before
    assert set(lines(journal, "embed")) == set(lines(journal, "save"))
    code, envelope = ask("resume", run["run"], "--wait", "30")
    assert (code, envelope["data"]["run"]["status"]) == (0, "running")
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert f"run {run['run']} is paused" in output
    assert set(Counter(lines(journal, "embed")).values()) == {1}
    assert last()["status"] == "succeeded"


def test_a_run_that_is_not_at_work_cannot_be_asked(start, journal, ask, last):
    assert start().wait(PATIENCE_S) == 0
    code, envelope = ask("cancel")
    assert (code, envelope["error"]) == (1, "no_run")
    code, envelope = ask("pause", last()["run"])
    assert "succeeded and has ended" in envelope["message"]
    code, envelope = ask("resume", "nothing")
    assert "no run is called nothing" in envelope["message"]


def test_a_run_without_changes_leaves_the_ledger_alone(start, root, last):
    assert start().wait(PATIENCE_S) == 0
    run = last()["run"]
    files = [root / ".doxtr" / "chroma" / name for name in ("corpus.sqlite3", "corpus.sqlite3-wal")]
    before = [path.read_bytes() if path.exists() else b"" for path in files]
    assert start().wait(PATIENCE_S) == 0
    assert last()["run"] == run
    assert [path.read_bytes() if path.exists() else b"" for path in files] == before
    assert os.listdir(root / ".doxtr" / "chroma").count("run-request.json") == 0  # noqa: PTH208
