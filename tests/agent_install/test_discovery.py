"""Which files Pi would load of a folder."""

import pytest
from agent_files import write_tree

from doxtr_rag.agent_install.discovery import loaded_from, loaded_from_package


def manifest(*entries):
    return {"name": "x", "pi": {"extensions": list(entries)}}


@pytest.mark.parametrize(
    ("files", "loaded"),
    [
        pytest.param({"index.ts": "", "index.js": "", "a.ts": ""}, ["index.ts"], id="index-ts"),
        pytest.param({"package.json": manifest("./b.ts"), "b.ts": "", "index.ts": ""}, ["b.ts"],
                     id="manifest-wins"),
        pytest.param({"package.json": manifest("./gone.ts"), "index.js": ""}, ["index.js"],
                     id="missing-file-falls-back"),
        pytest.param({"package.json": manifest("./src/*.ts"), "src/a.ts": "", "src/b.js": ""},
                     ["src/a.ts"], id="glob"),
        pytest.param({"package.json": manifest("src"), "src/index.ts": "", "src/b.ts": ""},
                     ["src/index.ts"], id="folder-in-the-manifest"),
        pytest.param({"package.json": manifest("."), "a.ts": ""}, ["a.ts"], id="itself"),
        pytest.param({"package.json": manifest("/*.ts"), "index.ts": ""}, ["index.ts"],
                     id="a-glob-from-the-root"),
        pytest.param({"a.ts": "", "b.js": "", "c.md": "", "d/index.ts": "", "e/x.ts": "",
                      ".f.ts": "", "node_modules/g.ts": ""}, ["a.ts", "b.js", "d/index.ts"],
                     id="one-level-deep"),
    ],
)  # fmt: skip
def test_files_that_pi_loads_of_a_folder(tmp_path, files, loaded):
    found = loaded_from(write_tree(tmp_path, files))
    assert [path.relative_to(tmp_path).as_posix() for path in found] == loaded


def test_a_package_without_manifest_has_its_extensions_in_a_folder(tmp_path):
    write_tree(tmp_path, {"package.json": '{"name": "x"}', "extensions/a.ts": "", "index.ts": ""})
    assert loaded_from_package(tmp_path) == [tmp_path / "extensions" / "a.ts"]


def test_a_place_that_is_not_there_loads_nothing(tmp_path):
    assert loaded_from(tmp_path / "gone") == []
