import json
import os

import pytest

from doxtr_rag.embedding.receipts import Receipts, sha256_of


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    return path


def forge(receipts, sha256):
    """Change what the only receipt claims, to see whether it is believed."""
    [slot] = receipts.folder.iterdir()
    slot.write_text(json.dumps({**json.loads(slot.read_text()), "sha256": sha256}))


def test_receipt_spares_hashing(tmp_path, file):
    receipts = Receipts(tmp_path / "receipts")
    assert receipts.sha256(file) == sha256_of(file)
    forge(receipts, "remembered")
    assert receipts.sha256(file) == "remembered"


def test_distrust_hashes_all_the_same(tmp_path, file):
    receipts = Receipts(tmp_path / "receipts")
    receipts.sha256(file)
    forge(receipts, "remembered")
    assert receipts.sha256(file, trust=False) == sha256_of(file)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda file: file.write_bytes(b"three"), id="size"),
        pytest.param(lambda file: os.utime(file, ns=(1, 1)), id="time"),
    ],
)
def test_changed_file_is_hashed_again(tmp_path, file, change):
    receipts = Receipts(tmp_path / "receipts")
    receipts.sha256(file)
    forge(receipts, "remembered")
    change(file)
    assert receipts.sha256(file) == sha256_of(file)


def test_same_file_through_a_link_has_the_same_receipt(tmp_path, file):
    receipts = Receipts(tmp_path / "receipts")
    (tmp_path / "link").symlink_to(file)
    receipts.sha256(file)
    receipts.sha256(tmp_path / "link")
    assert len(list(receipts.folder.iterdir())) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"sha256": 1}'])
def test_damaged_receipt_is_ignored(tmp_path, file, text):
    receipts = Receipts(tmp_path / "receipts")
    receipts.sha256(file)
    [slot] = receipts.folder.iterdir()
    slot.write_text(text)
    assert receipts.sha256(file) == sha256_of(file)


def test_folder_that_cannot_be_made_is_no_error(tmp_path, file):
    (tmp_path / "taken").write_text("a file where the folder should be")
    assert Receipts(tmp_path / "taken").sha256(file) == sha256_of(file)
