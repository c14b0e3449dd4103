"""What a proposal does, in a person's words: names and titles, no keys of documents."""

from __future__ import annotations

from typing import Any

from graphrag.approvals import Approve, outcome_text, title
from tests.graphrag.approvals.helpers import EDITOR, a_bench
from tests.support.each_row import each_row

CASES: list[tuple[str, dict[str, Any], str]] = [
    ("update_node", {"changes": {"data.name": "New\nname"}}, "rename “{b}” to “New name”"),
    (
        "update_node",
        {"changes": {"data.name": "New", "process": "next('0', 1)"}},
        "rename “{b}” to “New” and change its code",
    ),
    ("update_node", {"changes": {"data.level": 5}}, "change level of “{b}”"),
    ("delete_node", {}, "delete “{b}”"),
    ("move_node", {"posX": 1, "posY": 2}, "move “{b}” to 1, 2"),
    ("delete_edge", {"edgeKey": "bd"}, "remove the connection {b} → {d}"),
    ("create_node", {"typeKey": "task", "data": {"name": "Fresh"}}, "create “Fresh” ({task})"),
    (
        "batch",
        {"actions": [{"type": "delete_node", "payload": {"nodeKey": key}} for key in "bd"]},
        "2 changes: delete “{b}”; delete “{d}”",
    ),
]


@each_row("kind, payload, expected", CASES)
async def test_a_proposal_is_called_by_what_people_see(
    kind: str, payload: dict[str, Any], expected: str
) -> None:
    bench = await a_bench()
    await bench.rename("b", "The boss")
    await bench.rename("d", "The desk")
    node = {"nodeKey": "b"} if kind in ("update_node", "delete_node", "move_node") else {}
    approval = await bench.propose(kind, **node, **payload)
    types = {config.type: config.display_name for config in await bench.source.get_node_configs()}
    assert title(approval, "en") == expected.format(b="The boss", d="The desk", task=types["task"])
    if kind == "delete_node":
        assert title(approval, "fr") == "supprimer « The boss »"


async def test_a_person_reads_names_and_a_model_keys_too() -> None:
    bench = await a_bench()
    proposed = await bench.propose("create_node", typeKey="task", data={"name": "Fresh"})
    done = await bench.approvals().decide(proposed.id, Approve(), EDITOR)
    assert done.result is not None
    (key,) = done.result.keys["nodesCreated"]
    assert key in outcome_text(done)
    for text in (outcome_text(done, "en", to_person=True), outcome_text(done, "fr", to_person=True)):
        assert key not in text
        assert "Fresh" in text


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
