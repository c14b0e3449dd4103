"""Whatever editors and others do in whatever order: who only listens has the same graph, so has the
store after a save, and so has a server that takes over after a crash.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datasources.base import MutableGraphDataSource
from datasources.errors import InvalidMutation
from datasources.instructions import GraphInstruction, apply_instruction
from datasources.mock import MemoryDatabase
from datasources.types import Mutation
from graphrag.live import EditRefused, LiveGraph, LiveGraphs, Member
from graphrag.live.edit_history import edits_newest_first
from graphrag.live.edits import (
    create_elements,
    create_sheet,
    delete_elements,
    delete_sheet,
    rename_sheet,
)
from graphrag.live.instruction_batch import apply_instructions
from tests.contracts.plans import EDGES, NODES, Plan, Stored, made_to_fit, plans, texts
from tests.contracts.samples import FLOW, WORKSPACE, make_flow
from tests.graphrag.live import helpers
from tests.support.clock import Clock

SHEETS = ["0", "1", "2", "7"]
nodes = st.sampled_from([*NODES, "d", "apart"])
sheets = st.sampled_from(["0", "0", "0", *SHEETS])


def _instructions(sheet: str, steps: Sequence[tuple[str, str, int]]) -> list[GraphInstruction]:
    found: list[GraphInstruction] = []
    for key, word, kind in steps:
        found.append(
            [
                helpers.rename(key, word, sheet=sheet),
                helpers.instruct(key, 1, ["data"], sheet=sheet, v={"name": word, "list": [word]}),
                helpers.instruct(key, 3, ["data", "list"], sheet=sheet, v=word),
                helpers.instruct(key, 1, ["posX"], sheet=sheet, v=len(word)),
                helpers.instruct(key, 1, ["process"], sheet=sheet, v=word),
                helpers.instruct(key, 10, ["process"], sheet=sheet, v="\U0001f525" + word),
            ][kind]
        )
    return found


edits = st.one_of(
    st.tuples(
        st.just("instruct"),
        sheets,
        st.lists(st.tuples(nodes, texts, st.integers(0, 5)), min_size=1, max_size=3),
    ),
    st.tuples(
        st.just("create"),
        sheets,
        st.lists(nodes, max_size=3),
        st.lists(st.tuples(st.sampled_from(EDGES), nodes, nodes), max_size=2),
    ),
    st.tuples(
        st.just("delete"),
        sheets,
        st.lists(nodes, max_size=2, unique=True),
        st.lists(st.sampled_from([*EDGES, "ab", "cc"]), max_size=1),
    ),
    st.tuples(
        st.just("sheet"),
        st.sampled_from(["create", "rename", "delete"]),
        st.sampled_from(SHEETS[1:]),
    ),
)
others = st.one_of(
    st.tuples(st.just("stored elsewhere"), plans),
    st.tuples(st.just("approved"), plans),
    st.just(("save",)),
    st.just(("crash",)),
    st.just(("look",)),
    st.just(("take back",)),
)


@dataclass
class Listener:
    """A client that knows the graph as it was when it came, and what it was sent since."""

    members: list[Member]
    graph: dict[str, Any]
    sent: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def listen(self) -> None:
        for member in self.members:
            for message in helpers.heard(member):
                if "timestamp" in message:
                    self.sent[message["timestamp"]] = message
        for _, message in sorted(self.sent.items()):
            self._follow(message)
        self.sent.clear()

    def _follow(self, message: Mapping[str, Any]) -> None:
        nodes = self.graph["nodes"]
        edges = self.graph["edges"]
        sheets = self.graph["sheets"]
        match message["type"]:
            case "applyInstructionToGraph":
                for asked in message["instructions"]:
                    table, key = (
                        (nodes, asked["nodeId"]) if "nodeId" in asked else (edges, asked["edgeId"])
                    )
                    table[key] = apply_instruction(table[key], asked["i"])
            case "batchCreateElements":
                nodes.update({node["_key"]: node for node in message["nodes"]})
                edges.update({edge["_key"]: edge for edge in message["edges"]})
            case "batchDeleteElements":
                for key in message["edgeKeys"]:
                    edges.pop(key, None)
                for key in message["nodeKeys"]:
                    del nodes[key]
                    for edge in [k for k, e in edges.items() if key in (e["source"], e["target"])]:
                        del edges[edge]
            case "createSheet" | "renameSheet":
                sheets[message["key"]] = message["name"]
            case "deleteSheet":
                del sheets[message["key"]]
                for key in [k for k, n in nodes.items() if n.get("sheet", "0") == message["key"]]:
                    del nodes[key]
                for key in [k for k, e in edges.items() if e.get("sheet", "0") == message["key"]]:
                    del edges[key]
                for key in [
                    k for k, e in edges.items() if not {e["source"], e["target"]} <= nodes.keys()
                ]:
                    del edges[key]
            case other:
                raise AssertionError(other)


def _json(graph: Any) -> Any:
    if isinstance(graph, tuple):
        return [_json(item) for item in graph]
    if isinstance(graph, list):
        return [_json(item) for item in graph]
    return {key: _json(item) for key, item in graph.items()} if isinstance(graph, dict) else graph


class Story:
    """One graph, edited and stored by many, with a listener who was there from the start."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.clock = Clock()
        self.graphs = self._server()

    def _server(self) -> LiveGraphs:
        return LiveGraphs(
            self.database.source, self.database.records, options=helpers.NEVER, clock=self.clock
        )

    @property
    def stored(self) -> MutableGraphDataSource:
        return self.database.source(WORKSPACE)

    async def begin(self) -> None:
        await make_flow(self.database)
        await self.open()

    async def open(self) -> None:
        self.live: LiveGraph = await self.graphs.open(WORKSPACE, FLOW)
        members = []
        for sheet in SHEETS:
            member = self.live.join("listener", "0")
            member.sheet = sheet
            members.append(member)
        self.listener = Listener(members, _json(helpers.plain(self.live)))

    async def step(self, step: tuple[Any, ...]) -> None:
        self.clock.now += 10
        match step:
            case ("stored elsewhere", plan):
                await self.stored.apply(await self._mutation(plan))
            case ("approved", plan):
                with suppress(InvalidMutation):  # what was unsaved may contradict it
                    await self.live.apply_mutation(
                        await self._mutation(plan), expected_revision=None
                    )
            case ("save",):
                await self.live.save()
            case ("look",):
                await self.live.refresh()
            case ("take back",):
                await self._undo()
            case ("crash",):
                await self._crash()
            case _:
                await self._edit(step)

    async def _edit(self, step: tuple[Any, ...]) -> None:
        live = self.live
        before = helpers.plain(self.live)
        try:
            match step:
                case ("instruct", sheet, steps):
                    await live.edit("ann", None, apply_instructions, _instructions(sheet, steps))
                case ("create", sheet, keys, ends):
                    new = [helpers.a_raw_node(key, sheet=sheet) for key in keys]
                    edges = [helpers.a_raw_edge(*end, sheet=sheet) for end in ends]
                    await live.edit("ann", None, create_elements, sheet, new, edges)
                case ("delete", sheet, keys, edge_keys):
                    await live.edit("ann", None, delete_elements, sheet, keys, edge_keys)
                case ("sheet", "create", key):
                    await live.edit("ann", None, create_sheet, f"sheet {key}", key=key)
                case ("sheet", "rename", key):
                    await live.edit("ann", None, rename_sheet, key, f"other {self.clock.now}")
                case ("sheet", "delete", key):
                    await live.edit("ann", None, delete_sheet, key)
                case _:
                    raise AssertionError(step)
        except EditRefused:
            assert helpers.plain(live) == before

    async def _undo(self) -> None:
        records = self.database.records(WORKSPACE)
        unsaved = self.live.unsaved_history
        found = [edit async for edit in edits_newest_first(records, FLOW, unsaved)]
        before = helpers.plain(self.live)
        if found:
            try:
                await self.live.undo_edit(found[0].id, "ann")
            except EditRefused:
                assert helpers.plain(self.live) == before

    async def _crash(self) -> None:
        await self.live.refresh()
        self.listener.listen()
        expected = helpers.plain(self.live)
        has_unsaved = self.live.has_unsaved
        await self.live.abandon("it crashed")
        self.graphs = self._server()
        await self.open()
        assert _json(helpers.plain(self.live)) == _json(expected)
        assert self.live.has_unsaved == has_unsaved

    async def _mutation(self, plan: Plan) -> Mutation:
        stored = Stored(
            graph=await self.stored.get_graph(FLOW),
            nodes={node.key: node.sheet for node in await self.stored.get_nodes(FLOW)},
            edges=await self.stored.get_edges(FLOW),
            configs=set(),
        )
        drawn = made_to_fit(plan.mutation(FLOW, WORKSPACE), stored)
        graph = drawn.graph
        if graph is not None:  # a sheet does not go while something is on it
            used = {d.sheet for d in [*await self.stored.get_nodes(FLOW), *stored.edges]}
            kept = {k: name for k, name in stored.graph.sheets_list.items() if k in used}
            graph = graph.replace(sheets_list={**kept, **graph.sheets_list})
        return Mutation(
            graph_key=FLOW,
            put_nodes=drawn.put_nodes,
            put_edges=drawn.put_edges,
            delete_nodes=drawn.delete_nodes,
            delete_edges=drawn.delete_edges,
            graph=graph,
        )


@given(steps=st.lists(st.one_of(edits, edits, others), min_size=1, max_size=14))
async def test_all_who_look_at_a_live_graph_see_the_same(steps: list[tuple[Any, ...]]) -> None:
    story = Story()
    await story.begin()
    for step in steps:
        await story.step(step)
        story.listener.listen()
        assert _json(story.listener.graph) == _json(helpers.plain(story.live))
    await story.live.save()
    await story.live.refresh()
    story.listener.listen()
    assert _json(story.listener.graph) == _json(helpers.plain(story.live))
    assert helpers.plain(story.live) == await helpers.plain_stored(story.stored)
    assert await story.database.records(WORKSPACE).query("journal") == []
    await story.live.close()
