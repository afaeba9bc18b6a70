"""A disk that fills up in the middle of a run."""

import re
import shutil

import disks
import knowledge_base
import pytest
from crash_cases import PRIVATE, Journal, stories
from disks import disk_at
from store_checks import NEVER, after_a_kill, after_success, traces

from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_reader

pytestmark = [pytest.mark.slow, pytest.mark.durability]

STORIES = {story.name: story for story in stories()}
FREE_KIB = (0, 48, 200, 500, 900, 1400, 2200, 3200)
ADVICE = re.compile(r"free (some )?space|doxtr-rag rebuild|run again")


@pytest.fixture(scope="module", autouse=True)
def _mounts_are_allowed(is_ci):
    reason = disks.whynot()
    if reason and is_ci:
        pytest.fail(f"no small disk can be mounted here: {reason}")
    if reason:
        pytest.skip(f"{reason}: run sudo make durability PYTEST_ARGS={__file__}")


@pytest.fixture
def room(laboratory, tmp_path):
    """Return what fills a folder with the state that a story begins with."""

    def fill(story, root):
        before = laboratory.before(story)
        if before.exists():
            shutil.copytree(before, root, symlinks=True, dirs_exist_ok=True)
        return story.write(root, story.after)

    return fill


def check_after_freeing(laboratory, root, story, arguments, lost=0):
    """`lost` is how many texts may be embedded again."""
    full = Journal.of(root)
    done = laboratory.run(root, arguments)
    assert done.returncode == 0, done.stdout
    again = set(Journal.of(root).embedded[len(full.embedded) :])
    assert len(again & full.saved) <= lost
    assert knowledge_base.difference(root, laboratory.scratch(story)) == []
    assert after_success(root) == []


@pytest.fixture(scope="module")
def ends():
    """How runs ended: status, whether anything was embedded, whether the index was the end."""
    return set()


@pytest.mark.parametrize("name", ["first-build", "turns-private"])
@pytest.mark.parametrize("free", FREE_KIB)
def test_a_full_disk_loses_nothing(laboratory, room, ends, tmp_path, name, free):
    story, root = STORIES[name], tmp_path / "work"
    with disk_at(root / ".doxtr") as disk:
        arguments = room(story, root)
        first = Journal.of(root)
        disk.leave_kib(free)
        full = laboratory.run(root, arguments)
        is_embedding = len(Journal.of(root).embedded) > len(first.embedded)
        ends.add((full.returncode, is_embedding, "index was not written" in full.stdout))
        if full.returncode:
            assert ADVICE.search(full.stdout), full.stdout
            assert "Traceback" not in full.stdout, full.stdout
        assert (
            after_a_kill(
                root,
                was_built=story.before is not None,
                is_embedding=is_embedding,
                may_doubt=True,
            )
            == []
        )
        assert traces(root, NEVER) == []
        disk.grow()
        check_after_freeing(laboratory, root, story, arguments)


def test_these_disks_are_full_in_every_phase(ends):
    """The sizes above would show nothing if a run had room in all of them, or in none."""
    assert {(1, False, False), (1, True, False), (1, True, True)} <= ends, ends


@pytest.mark.parametrize("free", [0, 200, 900])
def test_a_full_disk_under_the_private_store_alone(laboratory, room, tmp_path, free):
    story, root = STORIES["turns-private"], tmp_path / "work"
    with disk_at(root / ".doxtr" / "chroma") as disk:
        arguments = room(story, root)
        disk.leave_kib(free)
        full = laboratory.run(root, arguments)
        assert full.returncode
        assert ADVICE.search(full.stdout), full.stdout
        # A leak cannot be undone, so the shared store loses its chunks whatever ails the private
        # one, and with them vectors that this one had no room to inherit.
        turned = {f"demo/{name}#" for name, page in story.after.items() if page[0] == PRIVATE}
        shared = knowledge_base.chunks(root, "SHARED_ORG")
        assert not [key for key in shared if key.startswith(tuple(turned))]
        assert after_a_kill(root, was_built=True, is_embedding=True, may_doubt=True) == []
        disk.grow()
        check_after_freeing(laboratory, root, story, arguments, lost=story.sections)


def test_a_full_temporary_folder(laboratory, room, tmp_path, monkeypatch):
    story, root = STORIES["turns-private"], tmp_path / "work"
    with disk_at(tmp_path / "temporary") as disk:
        arguments = room(story, root)
        disk.leave_kib(0)
        for name in ("TMPDIR", "SQLITE_TMPDIR"):
            monkeypatch.setitem(laboratory.environment, name, str(disk.folder))
        check_after_freeing(laboratory, root, story, arguments)


def test_a_reader_of_a_full_disk_sees_what_is_written_when_there_is_room(
    laboratory, room, tmp_path
):
    story, root = STORIES["all-changed"], tmp_path / "work"
    with disk_at(root / ".doxtr") as disk:
        arguments = room(story, root)
        disk.leave_kib(0)
        folder = root / ".doxtr" / "shared"
        with open_reader(folder, Scope.SHARED_ORG, "shared") as reader:
            assert "revision1" in reader.document("p1").chunks[0].text
            disk.grow()
            assert laboratory.run(root, arguments).returncode == 0
            assert "revision2" in reader.document("p1").chunks[0].text
