import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxtr_rag.core.identity import chunk_id, mount_document, project_slug, slug


@pytest.mark.parametrize(
    ("name", "language", "expected"),
    [
        pytest.param("My Guide 2.0", None, "my-guide-2-0", id="words-joined-by-hyphens"),
        pytest.param("My Guide", "de", "my-guide.de", id="one-namespace-for-each-language"),
        pytest.param("Guide", "zh_CN", "guide.zh-cn", id="territory"),
        pytest.param("手冊", None, "手冊", id="letters-of-any-script"),
        pytest.param("Ｇｕｉｄｅ", None, "guide", id="full-width-letters"),  # noqa: RUF001
        pytest.param("***", None, "project", id="no-letters"),
        pytest.param("a/b#c~d", None, "a-b-c-d", id="separators-of-ids"),
    ],
)
def test_project_slug(name, language, expected):
    assert project_slug(name, language) == expected


@given(st.text())
def test_slug_of_a_slug_is_itself(name):
    assert slug(slug(name)) == slug(name)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("p", "a/b", "intro"), "p/a/b#intro", id="whole-section"),
        pytest.param(("p", "a", "", 1), "p/a#", id="before-the-first-section"),
        pytest.param(("p", "a", "x", 3), "p/a#x~3", id="third-part"),
        pytest.param(("p", "a%20b", "x"), "p/a%20b#x", id="address-stays-readable"),
        pytest.param(("p", "c#", "x~2"), "p/c%23#x%7E2", id="separators-are-escaped"),
    ],
)
def test_chunk_id(arguments, expected):
    assert chunk_id(*arguments) == expected


NAMES = st.text("a#~%2537E", max_size=8)
IDENTITIES = st.tuples(NAMES, NAMES, st.integers(1, 12))


@given(IDENTITIES, IDENTITIES)
def test_chunk_ids_differ_when_anything_differs(left, right):
    assert (chunk_id("p", *left) == chunk_id("p", *right)) == (left == right)


def test_document_of_a_mount_is_a_posix_path():
    assert mount_document("Team Drive", "plans\\a.docx") == "team-drive/plans/a.docx"
