"""Many decisions of one graph at once, at one server and at two: each is applied, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from graphrag.approvals import Approvals, Approve, Asked
from tests.benchmarks.approvals_at_once import measure
from tests.graphrag.approvals.helpers import EDITOR, FLOW, a_bench


class Counting:
    """A source that counts what is asked of it."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.asked = inner, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self._inner, name)


async def test_a_decision_reads_what_it_touches_and_never_the_whole_graph() -> None:
    bench = await a_bench()
    payloads = [
        ("update_node", {"nodeKey": "b", "changes": {"data.name": "Other"}}),
        ("move_node", {"nodeKey": "b", "posX": 7, "posY": 7}),
        ("delete_node", {"nodeKey": "d"}),
        ("delete_edge", {"edgeKey": "ab"}),
        ("create_node", {"typeKey": "task"}),
        ("reorganize_layout", {"nodeKeys": ["a", "c"], "strategy": "left_to_right"}),
    ]
    for kind, payload in payloads:
        approval = await bench.propose(kind, **payload)
        source: Any = Counting(bench.source)
        done = await Approvals(source, bench.records, clock=bench.clock).decide(
            approval.id, Approve(), EDITOR
        )
        assert done.status == "applied", kind
        assert not {"get_nodes", "get_edges"} & source.asked.keys(), kind


async def test_a_proposal_reads_the_whole_graph_once_to_place_something_and_else_never() -> None:
    bench = await a_bench()
    for payload, times in (
        ({"type": "update_node", "payload": {"nodeKey": "b", "changes": {"data.name": "Other"}}}, 0),
        ({"type": "delete_node", "payload": {"nodeKey": "d"}}, 0),
        ({"type": "create_node", "payload": {"typeKey": "task"}}, 1),
    ):
        source: Any = Counting(bench.source)
        await Approvals(source, bench.records, clock=bench.clock).propose(
            payload,
            Asked(graph_key=FLOW, thread_id="t1", turn=1, tool_call_id="c1", asker=EDITOR, model="a-model"),
        )
        assert source.asked["get_nodes"] == times, payload


@pytest.mark.slow
@pytest.mark.parametrize(("proposals", "clients", "servers"), [(64, 64, 1), (64, 64, 2), (200, 8, 2)])
async def test_every_approval_of_one_graph_is_applied_once(
    proposals: int, clients: int, servers: int
) -> None:
    found = await measure(nodes=2_000, proposals=proposals, clients=clients, servers=servers)
    assert found.answers == {"200 applied": proposals}
    assert found.revisions == found.audited == proposals
