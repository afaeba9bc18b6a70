"""The real bge-m3 against values published with it; runs where its weights are."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from doxtr_rag.bootstrap.project import model_folders
from doxtr_rag.config.environment import read_environment
from doxtr_rag.core.errors import EmbeddingError
from doxtr_rag.embedding.onnx import OnnxEmbedder
from doxtr_rag.embedding.registry import BGE_M3
from doxtr_rag.embedding.tokenizer import ProfileTokenizer
from doxtr_rag.embedding.weights import locate, verify

QUESTIONS = ["What is BGE M3?", "Defination of BM25"]
PASSAGES = [
    "BGE M3 is an embedding model supporting dense retrieval, lexical matching and multi-vector "
    "interaction.",
    "BM25 is a bag-of-words retrieval function that ranks a set of documents based on the query "
    "terms appearing in each document",
]


@pytest.fixture(scope="module")
def folder():
    folders = model_folders(read_environment())
    try:
        verify(BGE_M3, locate(BGE_M3, folders), folders.receipts)
    except EmbeddingError:
        pytest.skip("needs the weights: doxtr-rag fetch-weights --profile bge-m3")
    return locate(BGE_M3, folders)


def test_tokenizer_is_the_genuine_one(folder):
    library = Tokenizer.from_file(str(folder / BGE_M3.tokenizer_file))
    assert library.get_vocab_size() == 250002
    [ids] = ProfileTokenizer(BGE_M3, folder).encode(QUESTIONS[:1]).ids
    assert ids.tolist() == [0, 4865, 83, 335, 11679, 276, 363, 32, 2]


def test_similarities_are_the_published_ones(folder):
    embedder = OnnxEmbedder(BGE_M3, folder, "cpu")
    questions = np.stack([np.frombuffer(embedder.embed_query(q), "<f4") for q in QUESTIONS])
    found = dict(pair for batch in embedder.embed(PASSAGES) for pair in batch)
    passages = np.stack([np.frombuffer(found[index], "<f4") for index in range(2)])
    published = np.array([[0.6265, 0.3477], [0.3499, 0.6780]])
    assert np.abs(questions @ passages.T - published).max() < 2e-3
