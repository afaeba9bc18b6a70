"""The vectors that Python and TypeScript share, run by Python."""

import json
from pathlib import Path

import pytest

from doxtr_rag.core.addressing import section_id
from doxtr_rag.core.display import without_controls
from doxtr_rag.core.documents import StoredChunk
from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.ports import Degradation
from doxtr_rag.core.ranking import Hit, best_sections, reciprocal_rank_fusion
from doxtr_rag.core.scope import Scope
from doxtr_rag.core.scrub import scrub
from doxtr_rag.retrieval.citations import citation, quote
from doxtr_rag.retrieval.render import render_answer
from doxtr_rag.servers.endpoints import checked
from doxtr_rag.servers.identity import proof

VECTORS = Path(__file__).parent.parent / "doxtr_rag/pi_extension/contract/vectors"


def vectors(name):
    cases = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return [pytest.param(case, id=case["name"]) for case in cases]


def expanded(value):
    """Return a value with every text that is written in parts joined."""
    if isinstance(value, dict) and set(value) == {"parts"}:
        return "".join(map(expanded, value["parts"]))
    if isinstance(value, dict) and set(value) == {"repeat", "times"}:
        return value["repeat"] * value["times"]
    if isinstance(value, dict):
        return {key: expanded(part) for key, part in value.items()}
    return [expanded(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", vectors("scrub"))
def test_scrub(case):
    text, expected = expanded(case["text"]), expanded(case["expected"])
    assert scrub(text) == expected
    assert scrub(expected) == expected


@pytest.mark.parametrize("case", vectors("controls"))
def test_controls(case):
    assert without_controls(expanded(case["text"])) == expanded(case["expected"])


@pytest.mark.parametrize("case", vectors("section_ids"))
def test_section_ids(case):
    assert section_id(case["chunk_id"]) == case["section_id"]


@pytest.mark.parametrize("case", vectors("citation_quote"))
def test_citation_and_quote(case):
    case = expanded(case)
    chunk = StoredChunk(
        chunk_id="p/d#a",
        project="p",
        document=case["document"],
        anchor="a",
        text=case["text"],
        breadcrumb=tuple(case["breadcrumb"]),
        url="",
        source_file="",
        locator=None,
        scope=Scope.SHARED_ORG,
        text_hash="",
        content_hash="",
        links=(),
        metadata={},
    )
    assert citation(chunk) == case["citation"]
    assert quote(case["text"], case["query"]) == case["quote"]


@pytest.mark.parametrize("case", vectors("rrf"))
def test_reciprocal_rank_fusion(case):
    rankings = [
        [Hit(hit["id"], hit["text_hash"], hit["store"], 0.0) for hit in ranking]
        for ranking in case["rankings"]
    ]
    fused = reciprocal_rank_fusion(rankings)
    assert [(h.chunk_id, h.store) for h in fused] == [
        (hit["id"], hit["store"]) for hit in case["expected"]
    ]
    assert [h.score for h in fused] == pytest.approx(
        [hit["score"] for hit in case["expected"]], abs=1e-12
    )


@pytest.mark.parametrize("case", vectors("fusion"))
def test_fusion_of_stores(case):
    fused = reciprocal_rank_fusion(
        [Hit(chunk, text, store["store"], score) for chunk, text, score in pool["hits"]]
        for store in case["stores"]
        for pool in store["pools"]
    )
    best = best_sections(fused, case["top_k"])
    assert [(section_id(h.chunk_id), h.chunk_id, h.store) for h in best] == [
        (e["section"], e["chunk"], e["store"]) for e in case["expected"]
    ]
    assert [h.score / best[0].score for h in best] == pytest.approx(
        [e["score"] for e in case["expected"]], abs=1e-12
    )


@pytest.mark.parametrize("case", vectors("identity"))
def test_identity(case):
    case = expanded(case)
    said = proof(case["token"], case["kb_id"], int(case["port"]), case["nonce"])
    assert said == case["proof"]


@pytest.mark.parametrize("case", vectors("endpoints"))
def test_endpoints(case):
    if case["valid"]:
        read = checked(case["document"], Path("endpoints.json"))
        assert read.kb_id == case["document"]["kb_id"]
        assert read.stores["private"].record() == case["document"]["private"]
    else:
        with pytest.raises(ConfigError, match=r"endpoints\.json is not usable"):
            checked(case["document"], Path("endpoints.json"))


@pytest.mark.parametrize("case", vectors("render"))
def test_render(case):
    case = expanded(case)
    degraded = [Degradation(d["code"], d["detail"]) for d in case["degraded"]]
    assert render_answer(case["hits"], degraded) == case["expected"]
