"""Compares what a script expects of a call with what the service has recorded of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from graphrag.voice.simulation.call_script import Expected

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExpectation:
    """One thing that was expected. `found`: what there was instead, where it does not hold."""

    what: str
    holds: bool
    found: str = ""

    def to_document(self) -> dict[str, Any]:
        return {"what": self.what, "holds": self.holds, "found": self.found}


def check_call(expected: Expected, call: Json, approvals: Sequence[Json]) -> list[CheckedExpectation]:
    """Return each thing that is expected and whether the record of the call shows it."""
    return list(_checked(expected, call, approvals))


def _checked(expected: Expected, call: Json, approvals: Sequence[Json]) -> Iterator[CheckedExpectation]:
    if expected.tool is not None:
        tools = [f"{tool['name']} {'ok' if tool.get('ok') else 'failed'}" for tool in call.get("tools", ())]
        yield _one(f"tool {expected.tool}", f"{expected.tool} ok" in tools, ", ".join(tools) or "no tool")
    words = " ".join(entry["content"] for entry in said_by(call, "assistant"))
    for wanted in expected.words:
        yield _one(f"words “{wanted}”", wanted.casefold() in words.casefold(), words[-300:] or "no words")
    nodes = [node_key(node) for source in call.get("sources", ()) for node in source.get("nodes", ())]
    for wanted in expected.sources:
        yield _one(f"source {wanted}", wanted in nodes, ", ".join(dict.fromkeys(nodes)) or "no source")
    if expected.approval is not None:
        states = [str(approval.get("status")) for approval in approvals]
        yield _one(f"approval {expected.approval}", expected.approval in states, ", ".join(states) or "none")
    for name, key in (("outcome", "outcome"), ("reason", "endReason")):
        if name in expected.model_fields_set:
            wanted, is_there = getattr(expected, name), call.get(key)
            yield _one(f"{name} {wanted}", wanted == is_there, str(is_there))


def _one(what: str, holds: bool, found: str) -> CheckedExpectation:
    return CheckedExpectation(what=what, holds=holds, found="" if holds else found)


def said_by(call: Json, role: str) -> list[Json]:
    """Return the entries of a call's transcript of one speaker."""
    return [entry for entry in call.get("transcript", ()) if entry.get("role") == role]


def node_key(node: Any) -> str:
    """Return the key of a node of `sources`, which is written alone or with more about it."""
    return str(cast(Json, node).get("key", "")) if isinstance(node, Mapping) else str(node)
