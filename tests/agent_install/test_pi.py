"""Installing the extension into a Pi agent folder, again, as a link, and out of it again."""

import dataclasses as dc
import json
import shutil
import stat

import pytest
from agent_files import TOOL, tree_of

from doxtr_rag.agent_install import pi, swap
from doxtr_rag.agent_install.errors import InstallError
from doxtr_rag.agent_install.extension import packaged
from doxtr_rag.agent_install.places import Action
from doxtr_rag.core.errors import ConfigError

INSTALLED = {"package.json", "chroma-rag.ts", "contract/scrub.json", "README.md"}
SETTINGS = '{"defaultProvider": "own", "defaultModel": "m",\n   "theme":"dark"}'


@pytest.fixture
def target(agent_dir):
    return agent_dir / "extensions" / "chroma-rag"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_first_install_copies_and_says_what_it_wrote(places, extension, target, agent_dir):
    report = pi.install_extension(places, extension=extension)
    assert (report.action, report.target) == (Action.INSTALLED, target)
    assert set(tree_of(target)) == INSTALLED
    assert set(report.files) == {
        *(target / name for name in INSTALLED),
        agent_dir / "doxtr-rag.env",
    }
    assert {path.name for path in agent_dir.iterdir()} == {"extensions", "doxtr-rag.env"}
    assert stat.S_IMODE((agent_dir / "doxtr-rag.env").stat().st_mode) == 0o600


@pytest.mark.parametrize("symlink", [False, True], ids=["copy", "link"])
def test_second_install_changes_nothing(places, extension, agent_dir, symlink):
    pi.install_extension(places, extension=extension, symlink=symlink)
    before = {path: path.lstat() for path in agent_dir.rglob("*")}
    report = pi.install_extension(places, extension=extension, symlink=symlink)
    assert (report.action, report.files) == (Action.UNCHANGED, ())
    assert {path: path.lstat() for path in agent_dir.rglob("*")} == before


def damage(target):
    (target / "chroma-rag.ts").write_text("half")


def lose(target):
    (target / "contract" / "scrub.json").unlink()


def add(target):
    (target / "index.ts").write_text(TOOL)


def link(target):
    (target / "README.md").unlink()
    (target / "README.md").symlink_to("chroma-rag.ts")


@pytest.mark.parametrize("change", [damage, lose, add, link])
def test_what_is_not_as_shipped_is_replaced(places, extension, target, change):
    pi.install_extension(places, extension=extension)
    as_shipped = tree_of(target)
    change(target)
    assert pi.install_extension(places, extension=extension).action is Action.UPDATED
    assert tree_of(target) == as_shipped


def test_an_update_replaces_the_whole_folder(places, extension, target):
    pi.install_extension(places, extension=extension)
    (extension.folder / "README.md").unlink()
    (extension.folder / "more.ts").write_text("1;\n")
    report = pi.install_extension(places, extension=packaged(extension.folder))
    assert report.action is Action.UPDATED
    assert set(tree_of(target)) == INSTALLED - {"README.md"} | {"more.ts"}


@pytest.mark.parametrize("order", [(False, True), (True, False)], ids=["to-link", "to-copy"])
def test_copy_and_link_take_each_other_s_place(places, extension, target, order):
    package = tree_of(extension.folder)
    for symlink in order:
        pi.install_extension(places, extension=extension, symlink=symlink)
        assert target.is_symlink() is symlink
    assert tree_of(extension.folder) == package
    if order[-1]:
        assert target.resolve() == extension.folder.resolve()
    else:
        assert set(tree_of(target)) == INSTALLED


def test_link_of_an_environment_that_is_gone_is_replaced(places, extension, target, tmp_path):
    target.parent.mkdir(parents=True)
    target.symlink_to(tmp_path / "gone")
    assert pi.install_extension(places, extension=extension).action is Action.UPDATED
    assert set(tree_of(target)) == INSTALLED


@pytest.mark.parametrize("verb", [pi.install_extension, pi.print_extension, pi.remove_extension])
def test_a_folder_of_the_same_name_that_is_not_ours_is_left_alone(
    places, extension, target, agent_dir, verb
):
    write(target / "index.ts", TOOL)
    before = tree_of(agent_dir)
    with pytest.raises(ConfigError, match="not made by doxtr-rag"):
        verb(places, extension=extension)
    assert tree_of(agent_dir) == before


def test_every_other_copy_is_named_and_nothing_is_installed(places, extension, agent_dir):
    copies = [
        write(agent_dir / "extensions" / "old.ts", TOOL),
        write(places.project_root / ".pi" / "extensions" / "kb" / "index.ts", TOOL).parent,
        write(places.home / "listed.ts", TOOL),
        write(places.project_root / "pack" / "extensions" / "a.ts", TOOL).parent.parent,
    ]
    write(agent_dir / "settings.json", json.dumps({"extensions": [str(copies[2])]}))
    write(places.project_root / ".pi" / "settings.json", json.dumps({"packages": ["../pack"]}))
    before = tree_of(places.home)
    with pytest.raises(ConfigError) as refusal:
        pi.install_extension(places, extension=extension)
    message = str(refusal.value)
    assert all(copy.name in message for copy in copies)
    assert str(agent_dir / "settings.json") in message
    assert tree_of(places.home) == before
    copies[0].unlink()
    with pytest.raises(ConfigError) as refusal:
        pi.install_extension(places, extension=extension)
    assert "old.ts" not in str(refusal.value)


def test_a_copy_beside_an_installed_one_stops_an_update(places, extension, target):
    pi.install_extension(places, extension=extension)
    shutil.copytree(target, target.with_name("chroma-rag.bak"))
    with pytest.raises(ConfigError, match=r"chroma-rag\.bak"):
        pi.install_extension(places, extension=extension)


def test_package_folder_in_the_settings_is_the_linked_one(places, extension, agent_dir):
    write(agent_dir / "settings.json", json.dumps({"extensions": [str(extension.folder)]}))
    with pytest.raises(ConfigError, match="registers"):
        pi.install_extension(places, extension=extension)
    report = pi.install_extension(places, extension=extension, symlink=True)
    assert report.action is Action.INSTALLED


@pytest.mark.parametrize("text", [SETTINGS, '{"defaultModel": "m"', "", "// mine\n{}"])
def test_settings_are_never_written(places, extension, agent_dir, text):
    settings = write(agent_dir / "settings.json", text)
    settings.chmod(0o640)
    before = settings.stat()
    report = pi.install_extension(places, extension=extension)
    is_said = any("settings.json could not be read" in note for note in report.notes)
    assert is_said is (text != SETTINGS)
    pi.remove_extension(places, extension=extension)
    assert settings.read_text(encoding="utf-8") == text
    assert settings.stat() == before


def test_settings_that_turn_the_extension_off_are_said(places, extension, agent_dir):
    override = ["-extensions/chroma-rag/chroma-rag.ts"]
    write(agent_dir / "settings.json", json.dumps({"extensions": override}))
    report = pi.install_extension(places, extension=extension, symlink=True)
    assert any("turns the extension off" in note for note in report.notes)


@pytest.mark.parametrize(
    ("names", "chosen", "said"),
    [
        pytest.param((), None, "", id="home"),
        pytest.param(("PI_CODING_AGENT_DIR",), 0, "PI_CODING_AGENT_DIR chose", id="the-first"),
        pytest.param(("PI_AGENT_DIR",), 0, "Pi itself ignores PI_AGENT_DIR", id="the-second"),
        pytest.param(
            ("PI_CODING_AGENT_DIR", "PI_AGENT_DIR"), 0, "PI_AGENT_DIR is set too", id="both"
        ),
    ],
)
def test_variables_choose_the_folder(places, extension, tmp_path, names, chosen, said):
    dirs = tuple((name, tmp_path / name.lower()) for name in names)
    found = pi.install_extension(dc.replace(places, agent_dirs=dirs), extension=extension)
    agent = places.home / ".pi" / "agent" if chosen is None else dirs[chosen][1]
    assert found.target == agent / "extensions" / "chroma-rag"
    assert set(tree_of(found.target)) == INSTALLED
    assert said in "\n".join(found.notes)


def test_env_file_follows_what_is_known(places, extension, agent_dir, tmp_path):
    env = write(agent_dir / "doxtr-rag.env", "export MINE=1\n")
    env.chmod(0o644)
    known = dc.replace(places, model_folder=tmp_path / "bge m3", endpoints=tmp_path / "e.json")
    pi.install_extension(known, extension=extension)
    text = env.read_text(encoding="utf-8")
    assert f"export DOXTR_RAG_BGE_M3_ONNX_DIR='{tmp_path}/bge m3'\n" in text
    assert f"export DOXTR_RAG_ENDPOINTS={tmp_path}/e.json\n" in text
    assert "# export DOXTR_RAG_EMBED_URL=" in text
    assert "export MINE=1\n" in text
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    moved = dc.replace(known, endpoints=tmp_path / "f.json")
    report = pi.install_extension(moved, extension=extension)
    assert (report.action, report.files) == (Action.UPDATED, (env,))
    pi.remove_extension(places, extension=extension)
    assert env.read_text(encoding="utf-8") == "export MINE=1\n"


def test_env_file_that_is_a_link_is_written_through(places, extension, agent_dir, tmp_path):
    dotfile = write(tmp_path / "dotfiles" / "rag.env", "export MINE=1\n")
    agent_dir.mkdir(parents=True)
    (agent_dir / "doxtr-rag.env").symlink_to(dotfile)
    pi.install_extension(places, extension=extension)
    assert "DOXTR_RAG_EMBED_URL" in dotfile.read_text(encoding="utf-8")
    pi.remove_extension(places, extension=extension)
    assert (agent_dir / "doxtr-rag.env").is_symlink()
    assert dotfile.read_text(encoding="utf-8") == "export MINE=1\n"


@pytest.mark.parametrize("symlink", [False, True], ids=["copy", "link"])
def test_removal_takes_exactly_what_was_installed(places, extension, agent_dir, symlink):
    write(agent_dir / "settings.json", SETTINGS)
    write(agent_dir / "auth.json", "{}")
    write(agent_dir / "extensions" / "mine.ts", "export default () => {};\n")
    before, package = tree_of(agent_dir), tree_of(extension.folder)
    pi.install_extension(places, extension=extension, symlink=symlink)
    report = pi.remove_extension(places, extension=extension)
    assert report.action is Action.REMOVED
    assert set(report.files) == {report.target, agent_dir / "doxtr-rag.env"}
    assert (tree_of(agent_dir), tree_of(extension.folder)) == (before, package)
    again = pi.remove_extension(places, extension=extension)
    assert (again.action, again.files) == (Action.ABSENT, ())


def test_removal_where_there_is_no_agent_makes_none(places, extension):
    assert pi.remove_extension(places, extension=extension).action is Action.ABSENT
    assert list(places.home.iterdir()) == []


def test_leftovers_of_a_killed_run_are_removed(places, extension, agent_dir, target):
    pi.install_extension(places, extension=extension)
    as_shipped = tree_of(target)
    write(agent_dir / f"{swap.STAGING}x1" / "built" / "chroma-rag.ts", "half")
    report = pi.install_extension(places, extension=extension)
    assert report.action is Action.UNCHANGED
    assert {path.name for path in agent_dir.iterdir()} == {"extensions", "doxtr-rag.env"}
    assert tree_of(target) == as_shipped


def test_printing_says_everything_and_writes_nothing(places, extension, target):
    report = pi.print_extension(places, extension=extension)
    assert report.action is Action.PRINTED
    assert target / "chroma-rag.ts" in report.files
    assert str(target) in "\n".join(report.notes)
    assert list(places.home.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said(places, extension, agent_dir):
    write(agent_dir, "a file where the agent's folder should be")
    with pytest.raises(InstallError, match="agent"):
        pi.install_extension(places, extension=extension)


def test_what_the_env_file_names_is_said_now_and_before(places, extension, agent_dir, tmp_path):
    one = dc.replace(places, endpoints=tmp_path / "one.json")
    two = dc.replace(places, endpoints=tmp_path / "two.json")
    first = "\n".join(pi.install_extension(one, extension=extension).notes)
    env = agent_dir / "doxtr-rag.env"
    assert f"{env} names {tmp_path}/one.json\n" in first
    assert "loading it is optional" in first
    moved = f"{env} names {tmp_path}/two.json; before it named {tmp_path}/one.json"
    assert moved in pi.print_extension(two, extension=extension).notes
    assert moved in pi.install_extension(two, extension=extension).notes
    again = "\n".join(pi.install_extension(two, extension=extension).notes)
    assert "before it named" not in again


def test_the_scope_is_written_kept_and_said(places, extension, agent_dir):
    def installed(**scope):
        report = pi.install_extension(places, extension=extension, **scope)
        text = (agent_dir / "doxtr-rag.env").read_text(encoding="utf-8")
        return "\n".join(report.notes), "\nexport DOXTR_RAG_AGENT_SCOPE=shared\n" in text

    notes, is_shared = installed()
    assert ("private pages too" in notes, is_shared) == (True, False)
    for scope in ({"scope": "shared"}, {}):
        notes, is_shared = installed(**scope)
        assert ("the shared store alone, only in a shell that" in notes, is_shared) == (True, True)
    notes, is_shared = installed(scope="all")
    assert ("private pages too" in notes, is_shared) == (True, False)


@pytest.mark.parametrize("verb", [pi.install_extension, pi.print_extension])
def test_before_a_build_the_next_command_is_named(places, extension, verb):
    unbuilt = dc.replace(places, is_built=False)
    assert "sphinx-build" in verb(unbuilt, extension=extension).notes[-1]
