"""Index Sphinx's own documentation and ask it three questions: `make demo`.

Everything lies in `.cache/demo`. A second run embeds nothing, since nothing changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
DEMO = REPOSITORY / ".cache" / "demo"
COMMAND = [sys.executable, "-m", "doxtr_rag"]
PROFILE = "minilm-offline"
SETTINGS = f"""
# --- added by the demo: all that a project needs ---
extensions.append("doxtr_rag")
rag_embedding_provider = {PROFILE!r}
rag_source_roots = ["doc/usage", "doc/tutorial", "doc/man", "doc/extdev"]  # the rest is private
rag_serve = "off"
intersphinx_mapping = {{}}  # the demo needs no other site
html_baseurl = ""  # so that answers open the pages built here
"""
QUESTIONS = (
    "How do I make the build fail when there is a warning?",
    "How do I number figures and refer to them by number?",
    "How long is a deprecated interface kept before it is removed?",
)
HITS_SHOWN = 2
QUOTE_WIDTH = 160
STEP = re.compile(r"(?P<phase>[^.\[]+)\.\.\.\s*\[\s*(?P<percent>\d+)%\]")
PERCENT_STEP = 25
OWN = "doxtr_rag: "
LONG_PHASES = ("reading sources", "writing output")


class DemoError(Exception):
    """A step of the demo failed; says which and what to look at."""


def say(line: str = "") -> None:
    """Print one line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def sphinx_sources() -> Path:
    """Return Sphinx's unpacked source package, which the tests use as well."""
    sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
    import sphinx_docs  # noqa: PLC0415 - found through the path above

    source: Path = sphinx_docs.source()
    return source.parent


def prepare() -> Path:
    """Unpack a copy whose conf.py has the extension switched on; return its doc folder."""
    unpacked = sphinx_sources()
    key = hashlib.sha256(f"{unpacked.name}{SETTINGS}".encode()).hexdigest()[:12]
    project = DEMO / key / unpacked.name
    if not project.exists():
        shutil.rmtree(DEMO, ignore_errors=True)
        draft = project.with_name("unfinished")
        shutil.copytree(unpacked, draft)
        with (draft / "doc" / "conf.py").open("a", encoding="utf-8") as conf:
            conf.write(SETTINGS)
        draft.rename(project)
    return project / "doc"


def fetch_weights() -> None:
    """Make sure that the demo's model is on this machine."""
    command = [*COMMAND, "fetch-weights", "--profile", PROFILE, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def build(doc: Path, html: Path) -> None:
    """Run an ordinary Sphinx build and show how far it is."""
    log = html.parent / "build.log"
    arguments = ["-b", "html", "-j", "2", "-d", str(html.parent / "doctrees"), str(doc), str(html)]
    with (
        log.open("w", encoding="utf-8") as written,
        subprocess.Popen(
            [sys.executable, "-m", "sphinx", "--no-color", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        shown: tuple[str, int] = ("", 0)
        for line in process.stdout or ():
            written.write(line)
            shown = show_progress(line, shown)
    if process.returncode:
        raise DemoError(f"the build failed with exit {process.returncode}: see {log}")


def show_progress(line: str, shown: tuple[str, int]) -> tuple[str, int]:
    """Print a step of a phase, or a line of our own, once; return what was printed last."""
    step = STEP.match(line)
    if not step:
        if line.startswith(OWN):
            say(f"      {line.removeprefix(OWN).strip()}")
        return shown
    phase, percent = step["phase"].removeprefix(OWN).strip(), int(step["percent"])
    reached = (phase, percent // PERCENT_STEP * PERCENT_STEP)
    is_long = line.startswith((OWN, *LONG_PHASES))
    if is_long and reached != shown and reached[1]:
        say(f"      {phase} {reached[1]} %")
    return reached


def ask(doc: Path, question: str) -> None:
    """Print the question and its best hits, each with the page that proves it."""
    done = subprocess.run(
        [*COMMAND, "--conf", str(doc), "--json", "search", question, "--top-k", str(HITS_SHOWN)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DemoError(
            f"the search failed with exit {done.returncode}: {done.stdout}{done.stderr}"
        )
    answer = json.loads(done.stdout)["data"]
    say(f"\n  Q: {question}")
    for hit in answer["hits"][:HITS_SHOWN]:
        quote = " ".join(str(hit["quote"]).split())
        shortened = quote if len(quote) <= QUOTE_WIDTH else f"{quote[:QUOTE_WIDTH]}..."
        say(f"     {hit['rank']}. {' > '.join(hit['breadcrumb'])}  [{hit['scope']}]")
        say(f"        {shortened}")
        say(f"        {hit['url']}")
    if not answer["hits"]:
        raise DemoError("the search found nothing")


def run() -> None:
    """Take the four steps of the demo."""
    started = time.monotonic()
    say(f"1/4  Sphinx's documentation, in {DEMO.relative_to(REPOSITORY)}")
    doc = prepare()
    html = doc.parent.parent / "html"
    say(f"2/4  the model {PROFILE}")
    fetch_weights()
    say("3/4  sphinx-build -b html -j 2 (minutes at first: every section is embedded)")
    build(doc, html)
    say("4/4  three questions")
    for question in QUESTIONS:
        ask(doc, question)
    say(f"\ndone in {time.monotonic() - started:.0f} s; ask your own:")
    say(f"  .venv/bin/doxtr-rag --conf {doc.relative_to(REPOSITORY)} search 'your question'")


def main() -> int:
    """Run the demo; a failure is one line."""
    try:
        run()
    except (DemoError, subprocess.CalledProcessError, OSError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
