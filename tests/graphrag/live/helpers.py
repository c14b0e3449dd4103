"""What the tests of live graphs share: a clock, a store that can fail, a sample graph to edit."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from datasources.base import Database, MutableGraphDataSource, Record
from datasources.errors import SourceUnavailable
from datasources.instructions import GraphInstruction
from datasources.types import Mutation, Node
from graphrag.live import AppliedEdit, LiveGraph, LiveGraphs, LiveOptions, Member
from graphrag.live.instruction_batch import apply_instructions
from tests.contracts.samples import FLOW, WORKSPACE, a_node, an_edge, make_flow
from tests.support.chosen_database import fresh_database
from tests.support.clock import MONDAY, Clock
from tools.actions.field_changes import json_document

NEVER = LiveOptions(tick_ms=3_600_000)
"""The tests do what is due themselves: `tick`."""


class Failing:
    """A source or record store of which named methods fail as often as asked."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.fails: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if not callable(method):
            return method

        async def called(*args: Any, **more: Any) -> Any:
            if self.fails.get(name, 0) > 0:
                self.fails[name] -= 1
                raise SourceUnavailable(source="test", reason="it was unplugged")
            return await method(*args, **more)

        return called


@dataclass
class Bench:
    """A database with the sample graph, and live graphs on it."""

    database: Database
    clock: Clock
    graphs: LiveGraphs
    source: Any
    records: Any
    live: LiveGraph = field(init=False)

    @property
    def stored(self) -> MutableGraphDataSource:
        return self.database.source(WORKSPACE)

    async def rename(self, node: str, name: str, *, sheet: str = "0") -> AppliedEdit:
        """Have ann edit the name of a node."""
        return await self.live.edit(
            "ann", None, apply_instructions, [rename(node, name, sheet=sheet)]
        )

    async def stored_node(self, key: str) -> Node:
        (node,) = await self.stored.get_nodes_by_key(FLOW, [key])
        return node

    async def journal(self) -> list[Record]:
        """Return the records of changes; the mark of a journal is none."""
        found = await self.database.records(WORKSPACE).query("journal")
        return [record for record in found if record.data["sequence"]]


@asynccontextmanager
async def a_bench(
    database: Database | None = None,
    options: LiveOptions = NEVER,
    *,
    later_ms: int = 0,
    **more: Any,
) -> AsyncIterator[Bench]:
    """Yield the sample graph opened live; it is made where it is not there yet.

    `later_ms` is what its clock is ahead: the holds of other servers have ended then.
    """
    database = database or await fresh_database()
    source = database.source(WORKSPACE)
    if not await source.list_graphs():
        await make_flow(database)
    clock = Clock(MONDAY + later_ms)
    failing = Failing(source)
    records = Failing(database.records(WORKSPACE))
    graphs = LiveGraphs(
        lambda workspace: failing if workspace == WORKSPACE else database.source(workspace),
        lambda workspace: records if workspace == WORKSPACE else database.records(workspace),
        options=options,
        clock=clock,
        **more,
    )
    async with graphs:
        bench = Bench(
            database=database, clock=clock, graphs=graphs, source=failing, records=records
        )
        bench.live = await graphs.open(WORKSPACE, FLOW)
        yield bench


def instruct(
    node: str, op: int, path: Sequence[str], *, sheet: str = "0", **operands: Any
) -> GraphInstruction:
    """Return an instruction for a node; names of `GraphInstruction` may be given too."""
    own = {k: v for k, v in operands.items() if len(k) > 1}
    rest = {k: v for k, v in operands.items() if len(k) == 1}
    return GraphInstruction.model_validate(
        {"i": {"o": op, "p": list(path), **rest}, "sheetId": sheet, "nodeId": node, **own}
    )


def rename(node: str, name: str, *, sheet: str = "0") -> GraphInstruction:
    return instruct(node, 1, ["data", "name"], sheet=sheet, v=name)


def a_raw_node(key: str, *, sheet: str = "0", **fields: Any) -> dict[str, Any]:
    return {**json_document(a_node(key, **fields)), "sheet": sheet}


def a_raw_edge(
    key: str, source: str, target: str, *, sheet: str = "0", **fields: Any
) -> dict[str, Any]:
    return {**json_document(an_edge(key, source, target, **fields)), "sheet": sheet}


def put(*nodes: Node, **more: Any) -> Mutation:
    return Mutation(graph_key=FLOW, put_nodes=nodes, **more)


def heard(member: Member) -> list[dict[str, Any]]:
    """Return the messages that have come to a member since the last look."""
    return [broadcast.message for broadcast in member.waiting()]


def plain(live: LiveGraph) -> dict[str, Any]:
    """Return the content of a live graph in comparable form."""
    return {
        "nodes": {node.key: node.to_document() for node in live.nodes},
        "edges": {edge.key: edge.to_document() for edge in live.edges},
        "sheets": live.document().sheets_list,
    }


async def plain_stored(source: MutableGraphDataSource) -> dict[str, Any]:
    return {
        "nodes": {node.key: node.to_document() for node in await source.get_nodes(FLOW)},
        "edges": {edge.key: edge.to_document() for edge in await source.get_edges(FLOW)},
        "sheets": (await source.get_graph(FLOW)).sheets_list,
    }
