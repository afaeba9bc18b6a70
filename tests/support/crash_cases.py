"""What is killed, where, and what must hold afterwards.

A story is a change from one state of a small project to another. It runs once undisturbed, which
gives the points to die at, and once from nothing, which gives what must come out. A case is a story
and a moment.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import kills
import knowledge_base
from kills import Kill, Victims, Watched
from sphinx_project import Page, Project, child_environment
from store_checks import NEVER, TURNED, after_a_kill, after_success
from watcher import Watcher

RUN = Path(__file__).with_name("counted_run.py")
REMOVED = "zqxkvrrr"
SHARED, PRIVATE = "SHARED_ORG", "LOCAL_PRIVATE"
WORDS = ("ports", "names", "server", "index", "reader", "vector", "shelf", "river", "stone")
MAX_UNSAVED = 256
"""Texts that a kill between the model and the transaction may cost."""

WATCHED = 0.85
"""The share of cases that a reader looks at."""

Pages = Mapping[str, tuple[str, int, str]]
"""Name -> scope, revision and a word that every chunk has."""


def text(name: str, part: int, revision: int, word: str) -> str:
    """Return the text of a section, the same whenever it is asked for."""
    source = random.Random(f"{name} {part}")  # noqa: S311 - a test's words
    words = " ".join(source.choices(WORDS, k=12))
    return f"revision{revision} of {name.replace('/', ' ')} {part} {word} {words}"


@dataclass(frozen=True)
class Story:
    """A change of a project; `before` is None where nothing was built yet."""

    name: str
    before: Pages | None
    after: Pages
    sections: int = 5
    how: str = "ingest"

    @property
    def never(self) -> list[str]:
        """The words that no instant may show in the shared store."""
        return [NEVER]

    @property
    def turned(self) -> list[str]:
        """The words that leave the shared store and never come back."""
        return [TURNED]

    def write(self, root: Path, pages: Pages, **options: object) -> list[str]:
        """Write a state of the project; return the arguments of the run that builds it.

        Options are `project` and `settings` of a run without Sphinx.
        """
        root.mkdir(parents=True, exist_ok=True)
        made = {
            name: (scope, [(f"s{n}", f"Part {n}", text(name, n, rev, word)) for n in range(parts)])
            for name, (scope, rev, word) in pages.items()
            for parts in [self.sections]
        }
        if self.how == "ingest":
            spec = root / "spec.json"
            given = {"root": str(root), "pages": made, **options}
            spec.write_text(json.dumps(given), encoding="utf-8")
            return ["ingest", str(spec)]
        shown = {
            name: Page(name, [part[1:] for part in parts], None if scope == SHARED else scope)
            for name, (scope, parts) in made.items()
        }
        index = Page("Demo", children=sorted(shown))
        Project({"index": index, **shown}, {"rag_allow_shrink": True}).write(root)
        places = [str(root / "source"), str(root / "_build" / "html")]
        return ["sphinx", "-q", "-d", str(root / "_build" / "doctrees"), *places]


def pages(count: int, revision: int = 1) -> dict[str, tuple[str, int, str]]:
    """Return pages of which every third is private."""
    return {
        f"p{n}": (SHARED, revision, "open") if n % 3 else (PRIVATE, revision, NEVER)
        for n in range(count)
    }


def stories() -> list[Story]:
    """Return the changes that runs are killed in."""
    plain = pages(9)
    leaving = {**plain, "p1": (SHARED, 1, TURNED), "p2": (SHARED, 1, REMOVED)}
    turned = {**plain, "p1": (PRIVATE, 1, TURNED), "p4": (SHARED, 2, "open"), "q": (SHARED, 1, "")}
    del turned["p2"]
    many = pages(45)
    return [
        Story("first-build", None, plain),
        Story("small-change", many, {**many, "p1": (SHARED, 2, "open")}),
        Story("turns-private", leaving, turned),
        Story("all-changed", plain, pages(9, revision=2)),
        Story("becomes-shared", plain, {**plain, "p0": (SHARED, 2, "open")}),
        Story("sphinx-turns-private", leaving, turned, sections=3, how="sphinx"),
    ]


@dataclass
class Case:
    """A story, a moment, and what happened."""

    story: Story
    kill: Kill
    broken: str = "none"
    faults: list[str] = field(default_factory=list)
    is_watched: bool = True
    is_killed: bool = False
    unsaved: int = 0
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What repeats this case: give it as DURABILITY_CASE."""
        kill = self.kill
        watched = "watched" if self.is_watched else "alone"
        parts = (kill.point, kill.occurrence, kill.victims.value, kill.delay_s, watched)
        return "|".join(map(str, (self.story.name, *parts)))

    @classmethod
    def of(cls, name: str) -> Case:
        """Return the case of that name."""
        story, point, occurrence, victims, delay, watched = name.split("|")
        found = {known.name: known for known in stories()}[story]
        kill = Kill(point, int(occurrence), Victims(victims), float(delay))
        return cls(found, kill, is_watched=watched == "watched")


class Laboratory:
    """Runs cases in a folder of its own; what stories share is made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = child_environment()

    @cached_property
    def watcher(self) -> Watcher:
        """The reader that looks on."""
        return Watcher(self.environment)

    def close(self) -> None:
        """Let the reader go."""
        if "watcher" in self.__dict__:
            self.watcher.close()

    def before(self, story: Story) -> Path:
        """Return a folder with the state that a story begins with."""
        root = self.folder / story.name / "before"
        if not root.exists() and story.before is not None:
            self.build(root, story, story.before)
        return root

    def scratch(self, story: Story) -> Path:
        """Return a folder that was built from nothing to the state a story ends with."""
        root = self.folder / story.name / "scratch"
        if not root.exists():
            self.build(root, story, story.after)
        return root

    def points(self, story: Story) -> list[str]:
        """Return every point of an undisturbed run, in order."""
        record = self.folder / story.name / "points.json"
        record.parent.mkdir(exist_ok=True)
        if not record.exists():
            root = self.copy(story, "undisturbed")
            watched = self.start(root, story.write(root, story.after))
            assert watched.wait() == 0, watched.output()
            watched.join()
            shutil.rmtree(root)
            record.write_text(json.dumps(watched.points))
        return list(json.loads(record.read_text()))

    def case(self, number: int, seed: int) -> Case:
        """Return the n-th case of a seed: stories take turns, and so do the points of each."""
        told = stories()
        story = told[number % len(told)]
        points = self.points(story)
        source = random.Random(f"{seed} {story.name}")  # noqa: S311 - a test's choice
        names = sorted(set(points))
        source.shuffle(names)
        point = names[number // len(told) % len(names)]
        source = random.Random(f"{seed} {number}")  # noqa: S311
        is_index = point.startswith("index")
        victims = source.choice(list(Victims)) if is_index else Victims.ALL
        delay = source.choice((0.0, 0.0, 0.003, 0.02)) if "SEGMENT" in point else 0.0
        occurrence = source.randint(1, max(1, points.count(point) * 4 // 5))
        # The last one to close a corpus tidies its files; a reader would always be the last.
        is_last = "unlink" in point or "ftruncate" in point
        is_watched = not is_last and source.random() < WATCHED
        return Case(story, Kill(point, occurrence, victims, delay), is_watched=is_watched)

    def copy(self, story: Story, name: str) -> Path:
        """Return a folder of its own in the state that a story begins with."""
        root = self.folder / name
        before = self.before(story)
        if before.exists():
            shutil.copytree(before, root, symlinks=True)
        else:
            root.mkdir()
        return root

    def command(self, root: Path, arguments: list[str], broken: str = "none") -> list[str]:
        """Return the command of a run whose journal lies beside the project."""
        return [sys.executable, str(RUN), str(root / "journal"), broken, *arguments]

    def start(
        self, root: Path, arguments: list[str], kill: Kill | None = None, broken: str = "none"
    ) -> Watched:
        """Start a run under watch."""
        return kills.start(
            self.command(root, arguments, broken),
            under=root / ".doxtr",
            log=root / "output",
            environment=self.environment,
            kill=kill,
        )

    def build(self, root: Path, story: Story, state: Pages) -> str:
        """Run undisturbed and return what was printed."""
        done = self.run(root, story.write(root, state))
        assert done.returncode == 0, done.stdout
        return done.stdout

    def run(
        self,
        root: Path,
        arguments: list[str],
        broken: str = "none",
        folder: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run without a watch, in a folder if one is given, and return how it ended."""
        return subprocess.run(
            self.command(root, arguments, broken),
            cwd=folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=kills.MAX_SECONDS,
        )

    def examine(self, case: Case) -> None:
        """Run a case and note everything in it that must not be."""
        root = self.copy(case.story, "case")
        try:
            self._examine(case, root)
        finally:
            shutil.rmtree(root)

    def _examine(self, case: Case, root: Path) -> None:
        story, faults = case.story, case.faults
        arguments = story.write(root, story.after)
        first = Journal.of(root)
        if case.is_watched:
            self.watcher.watch(root, story.never, story.turned)
        watched = self.start(root, arguments, case.kill, case.broken)
        try:
            status = watched.wait()
            case.is_killed = watched.is_killed
            if case.is_killed and case.kill.victims is Victims.CHILD and not case.kill.delay_s:
                faults += unsaid(status, watched.output())
            killed = Journal.of(root)
            if case.kill.victims is not Victims.PARENT:
                faults += after_a_kill(
                    root,
                    was_built=story.before is not None,
                    is_embedding=killed.embedded > first.embedded,
                )
            mended = self.run(root, arguments, case.broken)
        finally:
            watched.end()
            case.seen = self.watcher.report() if case.is_watched else {}
        faults += [f"a reader saw: {fault}" for fault in case.seen.get("faults", ())]
        if mended.returncode:
            faults.append(f"the next run failed: {mended.stdout[-500:]}")
            return
        last = Journal.of(root)
        again = last.embedded[len(killed.embedded) :]
        if twice := killed.saved & set(again):
            faults.append(f"{len(twice)} texts embedded again after their vectors were saved")
        case.unsaved = len(set(again) & set(killed.embedded) - killed.saved)
        if case.unsaved > MAX_UNSAVED:
            faults.append(f"{case.unsaved} texts embedded twice, never saved in between")
        faults += [
            f"from scratch: {d}" for d in knowledge_base.difference(root, self.scratch(story))
        ]
        faults += after_success(root)


@dataclass(frozen=True)
class Journal:
    """What runs in a folder embedded and saved, in order."""

    embedded: tuple[str, ...]
    saved: frozenset[str]

    @classmethod
    def of(cls, root: Path) -> Journal:
        """Read it; a run that was killed early has written none."""
        path = root / "journal"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return cls(
            tuple(text_hash for word, text_hash in lines if word == "embed"),
            frozenset(text_hash for word, text_hash in lines if word == "save"),
        )


def unsaid(status: int, output: str) -> list[str]:
    """Return what is wrong with the end of a run whose index process was killed."""
    is_said = "killed by SIGKILL" in output and "searched without it" in output
    return [] if status and is_said else [f"exit {status} after the index process died: {output}"]
