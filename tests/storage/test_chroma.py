import random
from array import array

import pytest

from doxtr_rag.storage import chroma

DIMENSION = 16
MANY = 1500


def records(count):
    source = random.Random(3)  # noqa: S311 - a test's numbers
    rows = (array("f", [source.gauss(0, 1) for _ in range(DIMENSION)]) for _ in range(count))
    return [(f"{at:064}", row.tobytes()) for at, row in enumerate(rows)]


def filled(path, count, graph):
    opened = chroma.create(path, "chunks", count, graph)
    opened.write(records(count))
    opened.close()


def lost(path, count):
    opened = chroma.open_generation(path, "chunks")
    found = {f"{at:064}" for at in range(count)} - opened.reached(DIMENSION, count)
    opened.close()
    return found


def test_records_written_again_are_reached(tmp_path):
    filled(tmp_path, MANY, chroma.Graph(max_neighbors=3, ef_construction=8, ef_search=10))
    before = lost(tmp_path, MANY)
    assert len(before) > 2
    chroma.link_again(tmp_path, "chunks", [r for r in records(MANY) if r[0] in before])
    assert len(lost(tmp_path, MANY)) < len(before) / 2


def test_a_single_record_written_again_is_on_disk(tmp_path):
    filled(tmp_path, 50, chroma.Graph())
    (graph,) = tmp_path.glob("*/data_level0.bin")
    before = graph.stat().st_mtime_ns
    chroma.link_again(tmp_path, "chunks", records(1))
    assert graph.stat().st_mtime_ns > before
    assert lost(tmp_path, 50) == set()


def test_vectors_are_given_back_as_they_were_written(tmp_path):
    written = dict(records(30))
    filled(tmp_path, 30, chroma.Graph())
    opened = chroma.open_generation(tmp_path, "chunks")
    found = opened.vectors([*list(written)[:5], "f" * 64])
    opened.close()
    assert found.keys() == set(list(written)[:5])
    for key, vector in found.items():
        left, right = array("f", vector), array("f", written[key])
        cosine = sum(a * b for a, b in zip(left, right, strict=True))
        assert cosine**2 == pytest.approx(sum(a * a for a in left) * sum(b * b for b in right))
