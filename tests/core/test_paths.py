from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxtr_rag.core.paths import PathRules, is_private_part, normal_part
from doxtr_rag.core.scope import AccessControl, Scope

NAMES = ("noter", "NDA")
NORMAL = tuple(map(normal_part, NAMES))


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "NDA-project"
    (folder / "source").mkdir(parents=True)
    return folder


def write(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("text")
    return path


def rules(root, *, roots=("source",), names=NAMES, packages=()):
    return PathRules(root, [root / folder for folder in roots], names, packages)


def scope_of(signals):
    return AccessControl.most_restrictive(signals).scope


@pytest.mark.parametrize(
    "part",
    [
        "noter", "NOTER", "noters", "noter.md", "noters.rst", "noter-2024", "noter_x", "noter 1",
        "noter2", "nda", "NDA's", "NDAs", "NDAs.md", "nda.tar.gz", "NDAs-old",
        pytest.param("ｎｏｔｅｒ", id="full-width"),  # noqa: RUF001
        pytest.param("no\u00adter", id="soft-hyphen"),
        pytest.param("no\u200bter", id="zero-width-space"),
        pytest.param("noter. .", id="trailing-dots-and-spaces"),
        pytest.param(" noter", id="leading-space"),
        pytest.param("noter\u0332", id="combining-mark"),
    ],
)  # fmt: skip
def test_part_is_private(part):
    assert is_private_part(part, NORMAL)


@pytest.mark.parametrize(
    "part",
    ["agenda", "Ndash", "noterside", "noterss", "mynoter", "not", "ndata.md", "", ".", "noteŕ"],
)
def test_part_is_not_private(part):
    assert not is_private_part(part, NORMAL)


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        pytest.param("source/a.rst", Scope.SHARED_ORG, id="in-a-source-root"),
        pytest.param("other/a.rst", Scope.LOCAL_PRIVATE, id="elsewhere"),
        pytest.param("source-old/a.rst", Scope.LOCAL_PRIVATE, id="folder-of-similar-name"),
        pytest.param("source/noter/a.rst", Scope.LOCAL_PRIVATE, id="deny-list-wins"),
        pytest.param("source/NDA.rst", Scope.LOCAL_PRIVATE, id="file-on-the-deny-list"),
        pytest.param("source/a\\nda\\b.rst", Scope.LOCAL_PRIVATE, id="backslash-separates-too"),
        pytest.param("source/../other/a.rst", Scope.LOCAL_PRIVATE, id="dots-are-resolved"),
    ],
)
def test_place_of_a_document(root, path, scope):
    write(root / path)
    assert scope_of(rules(root).signals(root / path)) is scope
    assert scope_of(rules(root).signals(Path(path))) is scope


def test_missing_file_is_in_doubt(root):
    (signal,) = rules(root).signals(root / "source/missing.rst")
    assert signal.scope is None
    assert scope_of([signal]) is Scope.LOCAL_PRIVATE


@pytest.mark.parametrize("path", ["source/a\0.rst", "source/" + "x" * 5000])
def test_path_that_cannot_exist_is_in_doubt(root, path):
    assert scope_of(rules(root).signals(root / path)) is Scope.LOCAL_PRIVATE


def test_no_source_root_shares_nothing(root):
    path = write(root / "source/a.rst")
    assert scope_of(rules(root, roots=()).signals(path)) is Scope.LOCAL_PRIVATE


def test_whole_project_may_be_a_source_root(root):
    path = write(root / "a.rst")
    assert scope_of(rules(root, roots=(".",)).signals(path)) is Scope.SHARED_ORG


@pytest.mark.parametrize(
    ("target", "link"),
    [
        pytest.param("other/a.rst", "source/a.rst", id="out-of-the-source-root"),
        pytest.param("source/noter/a.rst", "source/a.rst", id="into-the-deny-list"),
        pytest.param("source/a.rst", "source/nda.rst", id="link-of-a-denied-name"),
        pytest.param("../outside/a.rst", "source/a.rst", id="out-of-the-project"),
    ],
)
def test_link_does_not_share(root, target, link):
    write(root / target)
    (root / link).symlink_to(root / target)
    assert scope_of(rules(root).signals(root / link)) is Scope.LOCAL_PRIVATE


def test_linked_project_is_the_project(root, tmp_path):
    write(root / "source/a.rst")
    link = tmp_path / "link"
    link.symlink_to(root)
    assert scope_of(rules(link).signals(link / "source/a.rst")) is Scope.SHARED_ORG
    assert scope_of(rules(root).signals((link / "source/a.rst").resolve())) is Scope.SHARED_ORG


@pytest.mark.parametrize(
    ("path", "is_private"),
    [
        pytest.param("source/part.txt", False, id="in-a-source-root"),
        pytest.param("README.rst", False, id="elsewhere-in-the-project"),
        pytest.param("missing.txt", False, id="missing-in-the-project"),
        pytest.param("noter/part.txt", True, id="on-the-deny-list"),
        pytest.param("../outside/part.txt", True, id="outside-the-project"),
        pytest.param("../packages/lib/code.py", False, id="python-package"),
        pytest.param("../packages/nda_lib/code.py", True, id="denied-python-package"),
        pytest.param("source/a\0b", True, id="unclear-place"),
    ],
)
def test_place_of_an_included_file(root, path, is_private):
    if "missing" not in path and "\0" not in path:
        write(root / path)
    found = rules(root, packages=[root.parent / "packages"]).dependency_signals(root / path)
    assert bool(found) == is_private
    assert not found or scope_of(found) is Scope.LOCAL_PRIVATE


def test_every_part_of_an_outside_path_counts(root):
    path = write(root.parent / "noter/deep/part.txt")
    (signal,) = rules(root).dependency_signals(path)
    assert "rag_private_paths" in signal.reason


PARTS = st.sampled_from(["source", "docs", "NDA", "noters", "agenda", "a.rst", "nda.md"])


@given(st.lists(PARTS, max_size=5), st.permutations(NAMES))
def test_verdict_does_not_depend_on_the_order_of_names(parts, names):
    path = Path("/project", *parts)
    first = PathRules(Path("/project"), [], NAMES).dependency_signals(path)
    second = PathRules(Path("/project"), [], [*names, *names]).dependency_signals(path)
    assert first == second


@given(st.lists(PARTS, max_size=4), st.lists(PARTS, max_size=4))
def test_denied_part_makes_everything_below_private(above, below):
    signals = PathRules(Path("/project"), [], NAMES).dependency_signals(
        Path("/project", *above, "NDA-2024", *below)
    )
    assert scope_of(signals) is Scope.LOCAL_PRIVATE


@given(st.text(max_size=20))
def test_normal_part_is_normal(part):
    assert normal_part(normal_part(part)) == normal_part(part)


@given(st.text(max_size=12), st.sampled_from(NORMAL))
def test_denied_name_stays_denied_in_any_case(rest, name):
    assert is_private_part(f"{name}-{rest}", NORMAL)
    assert is_private_part(f"{name}-{rest}".upper(), NORMAL)
