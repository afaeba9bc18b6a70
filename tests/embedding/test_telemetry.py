"""Nothing is reported to the makers of the runtime."""

import subprocess
import sys

from sphinx_project import child_environment

LOAD = """
import sys
from pathlib import Path
from doxtr_rag.embedding.registry import profile
from doxtr_rag.embedding.session import ModelSession
ModelSession(profile("tiny"), Path(sys.argv[1]))
"""


def test_a_loaded_model_leaves_nothing_that_would_be_sent(tiny_model_dir, tmp_path):
    """Where it reports, the runtime keeps a device id and a queue of events in the home folder."""
    home = tmp_path / "home"
    home.mkdir()
    environment = child_environment() | {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    for silencer in ("ORT_DISABLE_TELEMETRY", "CI"):
        environment.pop(silencer, None)
    subprocess.run([sys.executable, "-c", LOAD, str(tiny_model_dir)], env=environment, check=True)
    assert list(home.rglob("*")) == []
