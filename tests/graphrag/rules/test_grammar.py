"""The language files: both complete, every text used, every intent handled, hostile text harmless."""

from __future__ import annotations

import re
import string
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import graphrag.rules
from graphrag.rules.patterns import grammar, understand
from graphrag.rules.provider import HANDLERS
from tests.support.each_row import each_row

SOURCE = "".join(p.read_text("utf-8") for p in Path(graphrag.rules.__file__).parent.glob("*.py"))
ENGLISH, FRENCH = grammar("en"), grammar("fr")


def facts(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


def test_both_languages_have_the_same_texts_with_the_same_facts() -> None:
    assert set(ENGLISH.texts) == set(FRENCH.texts)
    assert {
        name for name in ENGLISH.texts if facts(ENGLISH.texts[name]) != facts(FRENCH.texts[name])
    } == set()


def test_every_text_is_used_and_every_text_used_is_there() -> None:
    begun = tuple(re.findall(r"""f["'](\w+_)\{""", SOURCE))
    intents = {intent for rules in (ENGLISH, FRENCH) for intent, _, _ in rules.patterns}
    said = set(re.findall(r"""say\(\s*["'](\w+)["']""", SOURCE))
    assert said <= set(ENGLISH.texts)
    unused = {
        name
        for name in ENGLISH.texts
        if not re.search(rf"[\"']{name}[\"']", SOURCE) and not name.startswith(begun) and name not in intents
    }
    assert unused == set()


def test_every_intent_of_a_pattern_has_a_handler_or_is_a_text() -> None:
    intents = {intent for rules in (ENGLISH, FRENCH) for intent, _, _ in rules.patterns}
    assert intents - {"search"} <= set(HANDLERS) | set(ENGLISH.texts)


@each_row(
    "message, intents",
    [
        ("what is fetch-api and what comes after root?", ["describe_node", "neighbors"]),
        ("How many nodes are there? Which nodes are not connected?", ["count", "describe_graph"]),
        ("que fait fetch-api et combien de nœuds y a-t-il ?", ["describe_node", "count"]),
        ("rename root to Start and delete fetch-api", ["one_change_at_a_time"]),
        ("renomme root en Début et supprime fetch-api", ["one_change_at_a_time"]),
        ("delete fetch-api, then add a filter", ["one_change_at_a_time"]),
        ('rename root to "Start and delete"', ["rename"]),
        ("connect root and fetch-api", ["connect"]),
        ("delete act and decide", ["delete_node"]),
    ],
)
def test_parts_of_a_message_are_understood_apart_or_refused_whole(message: str, intents: list[str]) -> None:
    language = "fr" if re.search("que fait|renomme", message) else "en"
    requests = understand(message, (language, "en" if language == "fr" else "fr"))
    assert [request.intent for request in requests] == intents


@given(st.text(max_size=400))
def test_any_message_is_understood_as_something(message: str) -> None:
    requests = understand(message, ("en", "fr"))
    assert requests
    assert {request.intent for request in requests} <= {*HANDLERS, *ENGLISH.texts, "search"}
    assert len(requests) == 1 or not any(request.is_command for request in requests)
