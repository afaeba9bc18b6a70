"""Addresses of pages: where links of the site lead, and where the files are."""

from types import SimpleNamespace

import pytest

from doxtr_rag.sphinx_ext.surroundings import PageAddresses

BASE = "https://docs.example.org/x"


@pytest.mark.parametrize(
    ("style", "base", "suffixes", "docname", "expected"),
    [
        pytest.param("html", "", (None, None), "a/b", "a/b.html", id="file"),
        pytest.param("html", BASE, (None, None), "a/b", f"{BASE}/a/b.html", id="absolute"),
        pytest.param("html", "", (".htm", None), "a", "a.htm", id="file-suffix"),
        pytest.param("html", BASE, (None, ""), "a", f"{BASE}/a", id="links-without-suffix"),
        pytest.param("html", "", (None, ""), "a", "a.html", id="files-have-one-all-the-same"),
        pytest.param("html", BASE, (".htm", ".php"), "a", f"{BASE}/a.php", id="link-suffix"),
        pytest.param("html", "", (".htm", ".php"), "a", "a.htm", id="file-before-link"),
        pytest.param("dirhtml", "", (None, None), "index", "", id="root-folder"),
        pytest.param("dirhtml", "", (None, None), "a/index", "a/", id="folder-of-an-index"),
        pytest.param("dirhtml", BASE, (None, None), "a/b", f"{BASE}/a/b/", id="folder"),
        pytest.param("html", "", (None, None), "a b/100%", "a%20b/100%25.html", id="quoted"),
    ],
)
def test_address_of_a_page(style, base, suffixes, docname, expected):
    config = SimpleNamespace(html_file_suffix=suffixes[0], html_link_suffix=suffixes[1])
    assert PageAddresses(config, style, base).url(docname) == expected
