"""What conf.py and `-D` say, and how much of what is wrong one message names."""

import knowledge_base
import pytest
from source_files import titled, write
from sphinx.errors import ConfigError
from sphinx_project import build

pytestmark = [pytest.mark.sphinx_side, pytest.mark.usefixtures("tiny_model_dir")]

PAGES = {"index.rst": titled("Demo", "Text.")}


def test_one_message_names_everything_that_is_wrong(tmp_path):
    wrong = {
        "rag_device": "tpu",
        "rag_shared_prot": 8787,
        "rag_source_roots": ["nowhere"],
        "rag_embedding_provider": "nothing",
        "rag_builders": ["html", "htlm"],
    }
    write(tmp_path, PAGES, **wrong)
    with pytest.raises(ConfigError) as caught:
        build(tmp_path)
    message = str(caught.value)
    assert [key for key in wrong if key not in message] == []
    assert "did you mean rag_shared_port?" in message
    assert "nowhere" in message
    assert "'nothing'" in message
    assert "'htlm'" in message


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("def rag_helper(): pass\n", id="functions"),
        pytest.param("import os as rag_os\n", id="modules"),
    ],
)
def test_names_of_ours_may_be_used_for_what_is_no_setting(tmp_path, code):
    write(tmp_path, PAGES, code=code)
    assert build(tmp_path).status == 0


def test_a_password_in_the_base_address_is_not_stored(tmp_path):
    write(tmp_path, PAGES, html_baseurl="https://me:pass-word@docs.example.org/x")
    build(tmp_path)
    (row,) = knowledge_base.chunks(tmp_path, "SHARED_ORG").values()
    assert row["url"] == "https://docs.example.org/x/index.html"
