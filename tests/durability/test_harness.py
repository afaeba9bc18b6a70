"""The harness finds faults: each of these guards is broken on purpose, and must be missed."""

import shutil

import pytest
import sabotage
from crash_cases import Case, stories
from kills import Kill, Victims

pytestmark = [
    pytest.mark.slow,
    pytest.mark.durability,
    pytest.mark.usefixtures("stopped_calls"),
]

STORIES = {story.name: story for story in stories()}
COMMIT = "run fdatasync {}/corpus.sqlite3-wal"

# The broken guard; the story; the point, and how often it is passed; what the harness says.
BROKEN = [
    ("documents_are_split", "all-changed", COMMIT.format("shared"), (8,), "at once"),
    ("vectors_come_last", "first-build", COMMIT.format("shared"), (2, 3), "without a vector"),
    ("nobody_inherits", "turns-private", "run unlink shared/CURRENT", (1,), "embedded again"),
    ("withdrawal_waits", "turns-private", COMMIT.format("chroma"), (3, 4), "are embedded"),
    (
        "texts_pass_through_the_shared_folder",
        "first-build",
        "run unlink shared/draft.txt",
        (2,),
        "zqxkvnnn in draft.txt",
    ),
    ("generations_stay", "all-changed", COMMIT.format("shared"), (1,), "left behind"),
    (
        "index_is_marked_first",
        "all-changed",
        "index openat shared/index/GENERATION/SEGMENT/link_lists.bin",
        (1,),
        "index current: True",
    ),
]


def test_every_broken_guard_is_tried():
    assert {row[0] for row in BROKEN} == sabotage.BROKEN.keys()


@pytest.mark.parametrize(
    ("broken", "story", "point", "occurrences", "said"), BROKEN, ids=[row[0] for row in BROKEN]
)
def test_a_broken_guard_is_found(laboratory, broken, story, point, occurrences, said):
    found = []
    for occurrence in occurrences:
        # Alone, since a reader asks for a new index when it meets a damaged one.
        kill = Kill(point, occurrence, Victims.ALL)
        case = Case(STORIES[story], kill, broken, is_watched=False)
        laboratory.examine(case)
        assert case.is_killed, case.name
        found += case.faults
        if any(said in fault for fault in found):
            return
    pytest.fail(f"{broken} goes unnoticed: {found}")


def test_the_watcher_sees_what_is_there_for_an_instant(laboratory, tmp_path):
    story = STORIES["all-changed"]
    root = laboratory.copy(story, "watched")
    laboratory.watcher.watch(root, never=["zqxkvmmm"], turned=["revision1"])
    # Two whole builds, of which the second brings back what the first took away.
    laboratory.build(root, story, story.after)
    draft = root / ".doxtr" / "shared" / "draft.txt"
    draft.write_text("ZQXKVMMM")
    laboratory.build(root, story, story.before)
    draft.unlink()
    seen = laboratory.watcher.report()
    shutil.rmtree(root)
    assert "zqxkvmmm in draft.txt of the shared store" in seen["faults"]
    assert "revision1 came back to the shared store" in seen["faults"]
    assert seen["looks"] > 10
