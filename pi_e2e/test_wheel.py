"""The installer out of a wheel, without the sources beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from sandbox import BIN, Sandbox, fetch_environment
from station import QUESTION, SENTENCE

REPOSITORY = Path(__file__).parent.parent


def test_the_extension_comes_out_of_a_wheel(tmp_path, sandbox_folder, installed, served, model):
    sources = tmp_path / "sources"
    unbuilt = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "doxtr_rag", sources / "doxtr_rag", ignore=unbuilt)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, sources)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", tmp_path / "w"]
    done = subprocess.run(
        [*command, sources], cwd=tmp_path, env=fetch_environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "w").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    ours = [name for name in names if "/pi_extension/" in name]
    assert "doxtr_rag/pi_extension/contract/scrub.json" in ours
    assert not [name for name in ours if "/tests/" in name or "node_modules" in name]
    sandbox = Sandbox(sandbox_folder, installed["pi-1.6"], served, model.url)
    sandbox.environment["PYTHONPATH"] = str(tmp_path / "site")
    done = sandbox.command(str(BIN / "python"), "-m", "doxtr_rag", "install-agent", "pi")
    assert done.returncode == 0, done.stderr
    assert (sandbox.agent / "extensions" / "chroma-rag" / "chroma-rag.ts").is_file()
    sandbox.ask(QUESTION)
    assert SENTENCE in model.tool_result
