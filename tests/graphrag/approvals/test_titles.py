"""What a proposal does, in a person's words: names and titles, no keys of documents."""

from __future__ import annotations

from typing import Any

import pytest

from graphrag.approvals import Approve, outcome_text, title
from tests.graphrag.approvals.helpers import EDITOR, a_bench

EDGE = {"direction": "in", "handleId": "in", "targetNodeKey": "b", "targetHandleId": "out"}


@pytest.mark.parametrize(
    ("kind", "payload", "english", "french"),
    [
        (
            "update_node",
            {"nodeKey": "b", "changes": {"data.name": "New\nname"}},
            "rename “{b}” to “New name”",
            "renommer « {b} » en « New name »",
        ),
        (
            "update_node",
            {"nodeKey": "b", "changes": {"data.name": "New", "process": "next('0', 1)"}},
            "rename “{b}” to “New” and change its code",
            "renommer « {b} » en « New » et modifier son code",
        ),
        (
            "update_node",
            {"nodeKey": "b", "changes": {"data.level": 5}},
            "change level of “{b}”",
            "modifier level de « {b} »",
        ),
        ("delete_node", {"nodeKey": "b"}, "delete “{b}”", "supprimer « {b} »"),
        (
            "move_node",
            {"nodeKey": "b", "posX": 1, "posY": 2},
            "move “{b}” to 1, 2",
            "déplacer « {b} » en 1, 2",
        ),
        (
            "delete_edge",
            {"edgeKey": "bd"},
            "remove the connection {b} → {d}",
            "supprimer la liaison {b} → {d}",
        ),
        (
            "create_node",
            {"typeKey": "task", "data": {"name": "Fresh"}},
            "create “Fresh” ({task})",
            "créer « Fresh » ({task})",
        ),
        (
            "batch",
            {
                "actions": [
                    {"type": "delete_node", "payload": {"nodeKey": "b"}},
                    {"type": "delete_node", "payload": {"nodeKey": "d"}},
                ]
            },
            "2 changes: delete “{b}”; delete “{d}”",
            "2 changements : supprimer « {b} »; supprimer « {d} »",
        ),
    ],
)
async def test_a_proposal_is_called_by_what_people_see(
    kind: str, payload: dict[str, Any], english: str, french: str
) -> None:
    bench = await a_bench()
    await bench.rename("b", "The boss")
    await bench.rename("d", "The desk")
    approval = await bench.propose(kind, **payload)
    types = {config.type: config.display_name for config in await bench.source.get_node_configs()}
    names = {"b": "The boss", "d": "The desk", "task": types["task"]}
    assert title(approval, "en") == english.format(**names)
    assert title(approval, "fr") == french.format(**names)


async def test_a_person_is_told_names_and_a_model_keys_too() -> None:
    bench = await a_bench()
    proposed = await bench.propose("create_node", typeKey="task", data={"name": "Fresh"})
    done = await bench.approvals().decide(proposed.id, Approve(), EDITOR)
    assert done.result is not None
    (key,) = done.result.keys["nodesCreated"]
    assert key in outcome_text(done)
    for told in (outcome_text(done, "en", to_person=True), outcome_text(done, "fr", to_person=True)):
        assert key not in told
        assert "Fresh" in told


async def test_names_stay_as_they_were_when_it_was_proposed() -> None:
    bench = await a_bench()
    await bench.rename("b", "The boss")
    proposed = await bench.propose("update_node", nodeKey="b", changes={"data.level": 5})
    await bench.rename("b", "Somebody else")
    stored = await bench.approvals().get(proposed.id, EDITOR)
    assert title(stored, "en") == "change level of “The boss”"


async def test_what_was_stored_without_labels_is_called_by_its_keys() -> None:
    bench = await a_bench()
    proposed = await bench.propose("delete_node", nodeKey="b")
    assert title(proposed.changed(labels={}), "en") == "delete “b”"
