"""Decisions on ArangoDB, with every request of theirs failing in turn: applied once or
not, and known.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from datasources.arango import ArangoDatabase, parse_address
from datasources.errors import SourceError
from graphrag.approvals import Approve, Reject
from graphrag.approvals.errors import ApprovalError
from tests.datasources.arango.kit import hit
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench
from tests.support.arango import ArangoServer

FOREVER = 1_000_000


@pytest.fixture
async def bench(arango_faults: ArangoServer, arango_address: str) -> AsyncIterator[Bench]:
    async with ArangoDatabase(parse_address(arango_address)) as database:
        yield await a_bench(database)
    arango_faults.heal()


async def check_whole(bench: Bench, approval_id: str, number: int, before: int) -> str:
    """An approval that says it was applied was, once; any other left the graph as it was."""
    approvals = bench.approvals()
    approval = await approvals.get(approval_id, REVIEWER)
    assert approval.status in ("applied", "pending", "rejected")
    done = approval.status == "applied"
    assert await bench.revision() == before + done
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert (node.data["name"] == f"Name {number}") == done
    assert (await approvals.audit.verify()).is_sound
    entries = await approvals.audit.entries(approval_id=approval_id)
    assert [e.facts["event"] for e in entries] == (
        [approval.status] if approval.status != "pending" else []
    )
    return approval.status


@pytest.mark.parametrize(
    "action",
    [
        "drop-after",
        *(pytest.param(a, marks=pytest.mark.slow) for a in ("drop", "status:503", "error:1200")),
    ],
)
@pytest.mark.slow
async def test_one_fault_anywhere_stops_no_approval(
    bench: Bench, arango_faults: ArangoServer, action: str
) -> None:
    for number in range(0, 24, 2 if action == "drop-after" else 4):
        approval = await bench.propose(
            "update_node", nodeKey="b", changes={"data.name": f"Name {number}"}
        )
        before = await bench.revision()
        hit(arango_faults, number, action)
        decided = await bench.approvals().decide(approval.id, Approve(), EDITOR)
        arango_faults.heal()
        assert decided.status == "applied"
        assert await check_whole(bench, approval.id, number, before) == "applied"


@pytest.mark.slow
@pytest.mark.parametrize("decision", [Approve(), Reject("no")], ids=["approve", "reject"])
@pytest.mark.parametrize("action", ["drop", "drop-after"])
async def test_a_server_that_goes_for_good_at_any_moment_leaves_no_decision_half_done(
    bench: Bench, arango_faults: ArangoServer, action: str, decision: Any
) -> None:
    for number in range(0, 20, 2):
        approval = await bench.propose(
            "update_node", nodeKey="b", changes={"data.name": f"Name {number}"}
        )
        before = await bench.revision()
        hit(arango_faults, number, action, FOREVER)
        try:
            decided = await bench.approvals().decide(approval.id, decision, EDITOR)
        except (SourceError, ApprovalError):
            decided = None
        arango_faults.heal()
        status = await check_whole(bench, approval.id, number, before)
        assert decided is None or decided.status == status
