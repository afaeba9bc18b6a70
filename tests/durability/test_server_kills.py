"""A server killed while it starts, publishes, serves and ends."""

import os
import random
import shutil
import signal
import time

import pytest
from crash_cases import Laboratory, stories
from kills import Kill
from loopback import free_ports, port_settings
from store_checks import after_success
from tiny_profile import FOLDER_VARIABLE

from doxtr_rag import bootstrap
from doxtr_rag.bootstrap.addresses import LOCK_FILE
from doxtr_rag.servers.endpoints import read_endpoints, read_token
from doxtr_rag.storage import lock_holder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.durability,
    pytest.mark.usefixtures("stopped_calls"),
]

KILLS = int(os.environ.get("DURABILITY_SERVER_KILLS", "6"))
SEED = int(os.environ.get("DURABILITY_SEED", "1"))
STORY = next(story for story in stories() if story.name == "first-build")
PATIENCE_S = 60


@pytest.fixture(scope="module")
def served(laboratory, tmp_path_factory):
    """A knowledge base with ports of its own."""
    root = tmp_path_factory.mktemp("served") / "work"
    arguments = STORY.write(root, STORY.after, settings=port_settings(free_ports(3)))
    done = laboratory.run(root, arguments)
    assert done.returncode == 0, done.stdout
    return root


def start(laboratory: Laboratory, root, kill=None):
    return laboratory.start(root, ["cli", "serve", "--root", str(root)], kill)


def lives_and_ends(root, watched):
    """Let a server start, answer and end, as far as it comes."""
    deadline = time.monotonic() + PATIENCE_S
    while "serving" not in watched.output() and watched.process.poll() is None:
        assert time.monotonic() < deadline, watched.output()
        time.sleep(0.02)
    if watched.process.poll() is None:
        watched.process.send_signal(signal.SIGTERM)
    status = watched.wait()
    watched.join()
    return status


@pytest.fixture(scope="module")
def points(laboratory, served):
    root = shutil.copytree(served, served.with_name("undisturbed"), symlinks=True)
    watched = start(laboratory, root)
    assert lives_and_ends(root, watched) == 0, watched.output()
    shutil.rmtree(root)
    assert "run rename .endpoints.json.TEMPORARY" in watched.points
    return watched.points


@pytest.fixture(scope="module")
def struck():
    return []


@pytest.fixture(autouse=True)
def _children_find_the_tiny_profile(laboratory, monkeypatch):
    for name in ("PYTHONPATH", FOLDER_VARIABLE):
        monkeypatch.setenv(name, laboratory.environment[name])


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_server_is_no_obstacle(laboratory, served, points, tmp_path, struck, number):
    names = sorted(set(points))
    random.Random(SEED).shuffle(names)  # noqa: S311 - a test's choice
    point = names[number % len(names)]
    occurrence = random.Random(f"{SEED} {number}").randint(1, points.count(point))  # noqa: S311
    root = shutil.copytree(served, tmp_path / "work", symlinks=True)
    watched = start(laboratory, root, Kill(point, occurrence))
    status = lives_and_ends(root, watched)
    assert watched.is_killed == (status == -signal.SIGKILL), f"{point} {occurrence}"
    struck.append(watched.is_killed)
    project = bootstrap.find_project(None, root)
    assert lock_holder(root / ".doxtr", LOCK_FILE) is None
    assert bootstrap.server_status(project) is None
    # A build works beside what it left, and so does the next server.
    done = laboratory.run(root, STORY.write(root, STORY.after, settings=_ports(root)))
    assert done.returncode == 0, done.stdout
    assert '"embedded": 0' in done.stdout
    again = start(laboratory, root)
    assert lives_and_ends(root, again) == 0, again.output()
    assert read_token(root / ".doxtr") is None
    assert read_endpoints(root / ".doxtr").api_url is None
    assert after_success(root) == []


def _ports(root):
    """Return the ports that a copy of the knowledge base was built with."""
    settings = bootstrap.find_project(None, root).settings
    return port_settings([settings.shared_port, settings.private_port, settings.embed_port])


def test_most_moments_of_a_server_came(struck, points, say):
    came = f"{sum(struck)} of {len(struck)}, {len(set(points))} points"
    say(f"servers killed with seed {SEED}: {came}")
    assert sum(struck) >= 0.8 * len(struck)
