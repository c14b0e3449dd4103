"""Reads the facts of any node: those of its type, then the fields that every node may have
(credentials, notes).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from datasources.text import node_label
from datasources.types import Node
from tools.checks.checked_graph import data_of
from tools.flow_summary import note_text
from tools.node_meaning import n8n, node_red
from tools.node_meaning.fact import (
    ESSENTIAL,
    MAX_FACT_CHARS,
    MAX_FACTS,
    NodeFact,
    as_map,
    leaf_facts,
    written,
)
from tools.node_values import schedule_of
from tools.references import NOTE_TYPE

_READ_APART: Final = frozenset(
    (
        "name",
        "parameters",
        "credentials",
        "options",
        "notes",
        "disabled",
        "language",
        "group",
        "members",
    )
)


def facts_of(node: Node) -> tuple[NodeFact, ...]:
    """Returns at most `MAX_FACTS` facts about a node's function and settings, ordered by rank.

    The node's code is not included.
    """
    facts: list[NodeFact] = []
    chars_left = MAX_FACT_CHARS
    for fact in islice(_facts(node), MAX_FACTS):
        chars_left -= len(fact.value)
        if chars_left < 0:
            break
        facts.append(fact)
    return tuple(sorted(facts, key=lambda fact: fact.rank))


def _facts(node: Node) -> Iterator[NodeFact]:
    data = data_of(node)
    if not data:
        if node.data is not None and not isinstance(node.data, dict):
            yield from leaf_facts(node.data)
        return
    if node.type == NOTE_TYPE:
        yield NodeFact(note_text(node), rank=ESSENTIAL)
        return
    if data.get("disabled") is True:
        yield NodeFact("disabled", rank=ESSENTIAL)
    for text in schedule_of(node.type, data):
        yield NodeFact(text, rank=ESSENTIAL)
    parameters = as_map(data.get("parameters"))
    if n8n.is_n8n(node.type, data):
        shown = {
            k: v for k, v in parameters.items() if k not in ("rule", "triggerTimes", "pollTimes")
        }
        yield from n8n.parameter_facts(node.type, shown)
    else:
        yield from node_red.parameter_facts(node.type, parameters)
    for kind, account in as_map(data.get("credentials")).items():
        yield NodeFact(f"{written(account)} ({kind})", "credential")
    label = node_label(node)
    for name, value in data.items():
        if name not in _READ_APART and not (name == "text" and value == label):
            yield from leaf_facts({name: value})
    yield from leaf_facts({"notes": data.get("notes")})
    yield from leaf_facts(data.get("options"))
