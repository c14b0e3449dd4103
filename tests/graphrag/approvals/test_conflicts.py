"""Which open proposals exclude one another, and which do not."""

from __future__ import annotations

from typing import Any

from graphrag.approvals.conflicts import MAX_CONFLICTS, conflicts_of
from tests.graphrag.approvals.helpers import a_bench
from tests.support.each_row import each_row

NAME = ("update_node", {"nodeKey": "a", "changes": {"data.name": "New"}})
CASES = [
    (NAME, ("update_node", {"nodeKey": "a", "changes": {"data.name": "Other"}}), ["data.name"]),
    (NAME, ("update_node", {"nodeKey": "a", "changes": {"data": {"name": "Whole"}}}), ["data.name"]),
    (NAME, ("update_node", {"nodeKey": "a", "changes": {"data.note": "Other"}}), []),
    (NAME, ("update_node", {"nodeKey": "b", "changes": {"data.name": "Other"}}), []),
    (NAME, ("delete_node", {"nodeKey": "a"}), [""]),
    (NAME, ("move_node", {"nodeKey": "a", "posX": 5, "posY": 5}), []),
    (
        ("move_node", {"nodeKey": "a", "posX": 5, "posY": 5}),
        ("move_node", {"nodeKey": "a", "posX": 9, "posY": 9}),
        ["position"],
    ),
    (("delete_node", {"nodeKey": "a"}), ("delete_node", {"nodeKey": "b"}), [""]),
]


@each_row("one, other, fields", CASES)
async def test_what_excludes_what(one: Any, other: Any, fields: list[str]) -> None:
    bench = await a_bench()
    made = [await bench.propose(kind, thread=kind + str(i), **p) for i, (kind, p) in enumerate((one, other))]
    for both in (made, made[::-1]):
        assert [conflict.field for conflict in conflicts_of(both)] == fields


async def test_what_builds_on_another_is_no_conflict_and_many_are_counted_to_a_bound() -> None:
    bench = await a_bench()
    made = await bench.propose("create_node", typeKey="task", key="new", data={"name": "New"})
    [key] = made.names.values()
    builds = await bench.propose("update_node", nodeKey=key, changes={"data.name": "Newer"})
    assert builds.depends_on == (made.id,)
    assert conflicts_of([made, builds]) == []
    change = await bench.propose("update_node", thread="t2", nodeKey="a", changes={"data.name": "N"})
    many = [change.changed(id=f"ap_{i}") for i in range(400)]
    assert len(conflicts_of(many)) == MAX_CONFLICTS
