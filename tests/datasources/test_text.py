"""Words: how names and code split, and which text of a node is searched."""

import unicodedata
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from datasources.text import (
    MAX_FIELD_CHARS,
    effective_process,
    flatten,
    node_label,
    node_text,
    tokenize,
)
from datasources.types import Node, NodeTypeConfig, TypeTemplate


def a_node(**fields: Any) -> Node:
    return Node(**{"key": "n1", "graph_key": "g", "type": "api-call", **fields})


def a_type(process: str | None = None, **fields: Any) -> NodeTypeConfig:
    given = {
        "key": "t",
        "workspace": "w",
        "display_name": "API Call",
        "description": "Calls a service",
    }
    return NodeTypeConfig(
        **{**given, "node": TypeTemplate(type="api-call", process=process), **fields}
    )


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \t\n.,;-_/", []),
        ("fetchNbaPlayers", ["fetch", "nba", "player"]),
        ("fetch_nba_players", ["fetch", "nba", "player"]),
        ("fetch-nba players", ["fetch", "nba", "player"]),
        ("FETCH_NBA_PLAYERS", ["fetch", "nba", "player"]),
        ("parseHTTPResponse", ["pars", "http", "respons"]),
        ("XMLHttpRequest", ["xml", "http", "request"]),
        ("utf8Decode2", ["utf", "8", "decod", "2", "utf8decode2"]),
        ("n8n-nodes-base.httpRequest", ["n", "8", "n", "n8n", "node", "base", "http", "request"]),
        ("B2 é2", ["b", "2", "b2", "e", "2", "e2"]),
        ("v2.1.", ["v", "2", "1", "v2.1"]),
        ("HTTP-404, http_404", ["http", "404", "http404"] * 2),
        ("2.1 7", ["2", "1", "2.1", "7"]),
        ("no-code at-4", ["no", "code", "at", "4", "at4"]),
        (f"x{'7' * 40}", ["x", "7" * 40]),
        ("Été déjà ÇA", ["ete", "deja", "ca"]),
        ("Straße STRASSE STRAẞE", ["strass"] * 3),
        ("œuvre Œuvre oeuvre", ["oeuvr"] * 3),
        ("Søren soren, Łódź lodz", ["soren", "soren", "lodz", "lodz"]),
        ("ΟΔΟΣ οδος οδοσ", ["οδοσ"] * 3),
        ("ﬁlter", ["filter"]),
        ("発送メール", ["発送", "送メ", "メー", "ール"]),
        ("図", ["図"]),
        ("Привет", ["привет"]),
        ("running runs run", ["run", "run", "run"]),
        ("node.data['name']", ["node", "data", "name"]),
        ("🏀", []),
    ],
)
def test_text_splits_into_stems(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


@given(st.text())
@example("Ð가")
def test_tokens_are_words_without_space_or_mark(text: str) -> None:
    for token in tokenize(text):
        assert token
        assert not any(c.isspace() or c == "_" for c in token)
        assert token == token.lower()


@given(st.text(), st.text())
def test_texts_set_apart_do_not_touch_each_others_words(one: str, other: str) -> None:
    assert tokenize(f"{one} {other}") == tokenize(one) + tokenize(other)


@given(st.text())
def test_composed_and_decomposed_letters_are_the_same_words(text: str) -> None:
    words = tokenize(unicodedata.normalize("NFC", text))
    assert tokenize(unicodedata.normalize("NFD", text)) == words


def test_threads_stem_alike() -> None:
    words = [f"{verb}ing{i}" for i in range(200) for verb in ("load", "sort", "filter")]
    expected = [tokenize(word) for word in words]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenize, words)) == expected


@pytest.mark.parametrize(
    ("data", "label"),
    [
        ({"name": "Fetch", "title": "T"}, "Fetch"),
        ({"name": "  ", "title": " T "}, "T"),
        ({"name": 5, "label": "L"}, "L"),
        ({"displayName": "D"}, "D"),
        ({}, "API Call"),
        (None, "API Call"),
        (["name"], "API Call"),
        ("name", "API Call"),
    ],
)
def test_a_label_is_the_first_name_that_is_one_else_the_types(data: Any, label: str) -> None:
    assert node_label(a_node(data=data), a_type()) == label


@pytest.mark.parametrize("name", ["fetch api", "Fetch-API", "fétch_api", "FetchApi"])
def test_a_name_that_the_key_was_made_of_is_not_counted_twice(name: str) -> None:
    assert node_text(a_node(key="fetch-api", data={"name": name})).name == ""
    assert node_text(a_node(key="fetch-api", data={"name": f"{name} 2"})).name == f"{name} 2"


@pytest.mark.parametrize(
    ("own", "types", "effective"),
    [
        ("own", "type's", "own"),
        ("", "type's", ""),
        (None, "type's", "type's"),
        (None, None, ""),
    ],
)
def test_a_nodes_own_code_wins_even_when_empty(
    own: str | None, types: str | None, effective: str
) -> None:
    assert effective_process(a_node(process=own), a_type(types)) == effective
    assert effective_process(a_node(process=own), None) == (own or "")


def test_content_holds_every_part_and_names_only_what_it_is_called() -> None:
    node = a_node(data={"name": "Load", "url": "https://x"}, process="await run()")
    text = node_text(node, a_type())
    for part in ("n1", "Load", "api-call", "API Call"):
        assert part in text.names
        assert part in text.content
    for part in ("Calls a service", "https://x", "await run()"):
        assert part not in text.names
        assert part in text.content


def test_flattening_keeps_keys_strings_and_numbers_in_order() -> None:
    value = {"a": [1, 2.5, {"b": "two words"}], "c": None, "d": True, "e": {"f": "last"}}
    assert flatten(value) == "a 1 2.5 b two words c d e f last"
    assert flatten(None) == ""


def test_huge_or_deep_data_is_bounded() -> None:
    assert len(flatten(["x" * 1_000] * 1_000)) <= MAX_FIELD_CHARS
    assert len(flatten("x" * 1_000_000)) <= MAX_FIELD_CHARS
    deep: Any = "end"
    for _ in range(5_000):
        deep = [deep]
    assert flatten(deep) == "end"
    assert len(node_text(a_node(process="x" * 100_000)).process) == MAX_FIELD_CHARS
