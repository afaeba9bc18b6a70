"""What of the extension is installed."""

import pytest
from agent_files import write_tree

from doxtr_rag.agent_install.errors import InstallError
from doxtr_rag.agent_install.extension import packaged


def manifest(*entries):
    return {"name": "x", "pi": {"extensions": list(entries)}}


def test_only_what_pi_needs_is_installed(extension):
    assert set(extension.files) == {
        "package.json",
        "chroma-rag.ts",
        "contract/scrub.json",
        "README.md",
    }


def test_this_package_carries_what_its_manifest_names():
    own = packaged()
    assert own.name == "doxtr-rag-pi"
    assert set(own.entries) == {"./chroma-rag.ts"}
    assert {"chroma-rag.ts", "package.json", "contract/scrub.json"} <= set(own.files)
    assert not [name for name in own.files if "test" in name or "node_modules" in name]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="no-folder"),
        pytest.param({"chroma-rag.ts": ""}, id="no-manifest"),
        pytest.param({"package.json": manifest("./chroma-rag.ts")}, id="no-entry-file"),
        pytest.param({"package.json": "{"}, id="broken-manifest"),
    ],
)
def test_an_incomplete_package_is_refused(tmp_path, files):
    with pytest.raises(InstallError, match="incomplete"):
        packaged(write_tree(tmp_path / "package", files))
