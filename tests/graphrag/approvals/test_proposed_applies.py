"""What every write tool proposes on a published workflow is applied when it is approved at
once, as shown.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from datasources.types import Mutation
from graphrag.approvals import Approval, Approve
from graphrag.approvals.approval import Reason
from graphrag.approvals.errors import ProposalRefused
from graphrag.approvals.preview import preview_of
from graphrag.importers import GraphContent
from tests.graphrag.approvals.helpers import EDITOR, REVIEWER, WORKSPACE, Bench
from tests.graphrag.importers.helpers import Workbench, n8n, n8n_node, to
from tests.support.agents import an_ask
from tests.support.data_files import ours, published, workflow_batches
from tools.base import ToolContext
from tools.write_tools import WRITE_TOOLS, Snapshot

FEW = [*ours("workflows", "n*.json"), *published("workflows", "n*.json")[::60]]

NOTE = "n8n-nodes-base.stickyNote"
FRAMED = n8n(
    [
        n8n_node("Start", position=[0, 0]),
        n8n_node("Next", position=[400, 0]),
        n8n_node("Inner", NOTE, position=[-40, -40], parameters={"width": 300, "height": 200}),
        n8n_node("Outer", NOTE, position=[-80, -80], parameters={"width": 800, "height": 320}),
    ],
    {"Start": {"main": [[to("Next")]]}},
)
"""A node in a sticky note that lies in another: a node added behind it makes both grow."""


def one_call_of_each_tool(content: GraphContent, seed: int) -> dict[str, dict[str, Any]]:
    """Return the arguments of a call of every write tool that a graph of this content may take."""
    chosen = random.Random(seed)
    nodes = sorted(content.nodes.values(), key=lambda n: n.key)
    edges = sorted(content.edges)
    own = [c for c in content.types.values() if c.workspace == WORKSPACE]
    points = [
        (node, point)
        for node in nodes
        for group in (node.handles or content.types[node.type].node.handles).values()
        for point in group.point
    ]
    calls: dict[str, dict[str, Any]] = {}
    one = chosen.choice(nodes)
    config = chosen.choice(own)
    calls["propose_create_node"] = {"typeKey": config.type, "data": {"name": "Made"}}
    calls["propose_update_node"] = {
        "nodeKey": one.key,
        "changes": {"data.name": "Renamed", "data.more": [1]},
    }
    calls["propose_move_node"] = {"nodeKey": one.key, "posX": 12_345, "posY": -77}
    calls["propose_delete_node"] = {"nodeKey": chosen.choice(nodes).key}
    calls["propose_configure_node_type"] = {
        "mode": "update",
        "typeKey": config.type,
        "description": "Other.",
    }
    some = chosen.sample(nodes, min(len(nodes), 6))
    calls["propose_reorganize_layout"] = {"nodeKeys": [node.key for node in some]}
    if edges:
        calls["propose_delete_edge"] = {"edgeKey": chosen.choice(edges)}
    if not points:
        return calls
    node, point = chosen.choice(points)
    other = "out" if point.type == "in" else "in"
    handle = {"id": "new", "type": other, "accept": point.accept}
    beside = {
        "typeKey": config.type,
        "data": {"name": "Beside"},
        "handles": {"R" if other == "out" else "L": {"point": [handle]}},
    }
    edge = {
        "direction": other,
        "handleId": "new",
        "targetNodeKey": node.key,
        "targetHandleId": point.id,
    }
    calls["propose_create_node_with_edges"] = {**beside, "edges": [edge]}
    ends = {
        "sourceKey": "$1",
        "sourceHandle": "new",
        "targetKey": node.key,
        "targetHandle": point.id,
    }
    if other == "in":
        ends = {
            "sourceKey": node.key,
            "sourceHandle": point.id,
            "targetKey": "$1",
            "targetHandle": "new",
        }
    calls["propose_batch"] = {
        "actions": [
            {"type": "create_node", "payload": {"key": "$1", **beside}},
            {"type": "create_edge", "payload": ends},
            {
                "type": "update_node",
                "payload": {"nodeKey": node.key, "changes": {"data.name": "Both"}},
            },
            {"type": "reorganize_layout", "payload": {"nodeKeys": ["$1", node.key]}},
        ]
    }
    pairs = [
        (a, p, b, q) for a, p in points if p.type == "out" for b, q in points if q.type == "in"
    ]
    pairs = [(a, p, b, q) for a, p, b, q in pairs if a.sheet == b.sheet and p.accept == q.accept]
    taken = {(e.source, e.source_handle, e.target, e.target_handle) for e in content.edges.values()}
    free = [
        (a.key, p.id, b.key, q.id)
        for a, p, b, q in pairs
        if (a.key, p.id, b.key, q.id) not in taken
    ]
    if free:
        names = ("sourceKey", "sourceHandle", "targetKey", "targetHandle")
        calls["propose_create_edge"] = dict(zip(names, chosen.choice(free), strict=True))
    return calls


async def called(
    bench: Bench, graph: str, name: str, arguments: dict[str, Any], number: int
) -> Approval | None:
    """Call a write tool as the agent does, and propose what it returns; None where
    nothing would change.
    """
    tool = next(tool for tool in WRITE_TOOLS if tool.name == name)
    parsed = tool.arguments.model_validate({**arguments, "reason": "tried"})
    result = await tool.run(
        parsed, ToolContext(source=bench.source, graph_key=graph, role="editor")
    )
    assert result.data is not None, (name, result.text)
    asked = an_ask(graph, EDITOR, tool_call_id=f"call-{number}", turn=number)
    try:
        return await bench.approvals().propose(result.data, asked)
    except ProposalRefused as refused:
        if not str(refused).endswith("the graph is like that already"):
            raise
        return None


def changes_between(before: GraphContent, after: GraphContent) -> dict[str, Any]:
    """Return what became of a graph, as previews show it."""
    types = [config for name, config in after.types.items() if before.types.get(name) != config]
    mutation = Mutation(
        graph_key=before.graph.key,
        put_nodes=[node for key, node in after.nodes.items() if before.nodes.get(key) != node],
        put_edges=[edge for key, edge in after.edges.items() if before.edges.get(key) != edge],
        delete_nodes=sorted(before.nodes.keys() - after.nodes.keys()),
        delete_edges=sorted(before.edges.keys() - after.edges.keys()),
        put_configs=types,
        graph=after.graph,
    )
    stood = Snapshot(graph=before.graph, nodes=before.nodes, edges=before.edges, types=before.types)
    return preview_of(stood, mutation)


def in_order(preview: dict[str, Any]) -> dict[str, Any]:
    return {
        part: sorted(items, key=lambda one: one.get("_key") or one["key"])
        for part, items in preview.items()
    }


async def propose_and_approve_each(raw: Any, name: str, seed: int) -> set[str]:
    """Propose a change by every tool and approve it at once; return the tools that were called."""
    work = Workbench(workspace=WORKSPACE)
    bench = Bench(database=work.database)
    outcome = await work.take(raw, file_name=name)
    done: set[str] = set()
    for number, tool in enumerate(WRITE_TOOLS):
        content = await work.content(outcome.graph_key)
        calls = one_call_of_each_tool(content, seed + number)
        if tool.name not in calls:
            continue
        where = (name, tool.name, calls[tool.name])
        proposed = await called(bench, outcome.graph_key, tool.name, calls[tool.name], number)
        if proposed is None:
            continue
        before = await work.content(outcome.graph_key)
        decided = await bench.approvals().decide(proposed.id, Approve(), REVIEWER)
        assert decided.status == "applied", (where, decided.result and decided.result.reason)
        became = changes_between(before, await work.content(outcome.graph_key))
        shown = {k: v for k, v in proposed.preview.items() if k != "referencesBroken"}
        assert in_order(became) == in_order(shown), where
        done.add(tool.name)
    return done


async def test_a_node_put_into_notes_that_grow_is_applied_as_shown() -> None:
    done = await propose_and_approve_each(FRAMED, "framed.json", 0)
    assert done == {tool.name for tool in WRITE_TOOLS}


BEHIND = "propose_create_node_with_edges"


def behind_start(name: str) -> dict[str, Any]:
    edge = {"direction": "in", "handleId": "0", "targetNodeKey": "start", "targetHandleId": "0"}
    return {"typeKey": "n8n-nodes-base.set", "data": {"name": name}, "edges": [edge]}


async def test_every_proposal_of_a_turn_that_fills_one_note_is_applied() -> None:
    """Each makes the note grow; the next one finds it grown."""
    work = Workbench(workspace=WORKSPACE)
    bench = Bench(database=work.database)
    graph = (await work.take(FRAMED)).graph_key
    made = [
        await called(bench, graph, BEHIND, behind_start(f"Made {number}"), 1) for number in range(3)
    ]
    for approval in made:
        assert approval is not None
        assert approval.preview["nodesChanged"]
        before = await work.content(graph)
        decided = await bench.approvals().decide(approval.id, Approve(), REVIEWER)
        assert decided.status == "applied", decided.result and decided.result.reason
        became = changes_between(before, await work.content(graph))
        assert in_order(became) == in_order(dict(decided.effective_preview))


async def test_a_note_that_was_moved_away_meanwhile_is_named_as_why_a_proposal_is_stale() -> None:
    work = Workbench(workspace=WORKSPACE)
    bench = Bench(database=work.database)
    graph = (await work.take(FRAMED)).graph_key
    approval = await called(bench, graph, BEHIND, behind_start("Made"), 1)
    assert approval is not None
    grown = [change["key"] for change in approval.preview["nodesChanged"]]
    (frame,) = await bench.source.get_nodes_by_key(graph, grown)
    await bench.source.apply(Mutation(graph_key=graph, put_nodes=[frame.replace(pos_x=9_000)]))
    decided = await bench.approvals().decide(approval.id, Approve(), REVIEWER)
    reason = decided.result and decided.result.reason
    assert decided.status == "stale"
    assert reason == Reason(code="stale_changed", facts={"changed": f"position/{frame.key}"})


@pytest.mark.parametrize("path", FEW, ids=lambda path: path.stem)
async def test_what_each_tool_proposes_on_a_workflow_is_applied_as_shown(path: Path) -> None:
    raw = await asyncio.to_thread(path.read_bytes)
    await propose_and_approve_each(raw, path.name, FEW.index(path))


@pytest.mark.slow
@pytest.mark.parametrize("paths", workflow_batches())
async def test_what_each_tool_proposes_on_any_workflow_is_applied_as_shown(
    paths: list[Path],
) -> None:
    for number, path in enumerate(paths):
        await propose_and_approve_each(path.read_bytes(), path.name, number)
