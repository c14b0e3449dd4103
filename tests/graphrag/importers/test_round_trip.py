"""A graph that is exported and imported again is the same graph, whatever people and approvals
did to it.
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from datasources.types import Edge, Mutation, Node
from graphrag.approvals import Approve, Person
from graphrag.approvals.errors import ProposalRefused
from graphrag.changes.field_diff import field_changes
from graphrag.importers import GraphContent
from graphrag.importers.exchange import ImportOutcome, export_file
from graphrag.importers.export import NotExportable
from tests.graphrag.importers.helpers import WORKSPACE, Workbench, n8n, n8n_node, to
from tests.support.agents import an_ask
from tests.support.data_files import workflow_batches

ROOT = Path(__file__).parents[3]
ROUNDS = 3
REVIEWER = Person("rita", "reviewer", WORKSPACE)

FLOW: list[Any] = [
    {"id": "t1", "type": "tab", "label": "Heating"},
    {"id": "t2", "type": "tab", "label": "Cooling"},
    {
        "id": "g1",
        "type": "group",
        "z": "t1",
        "name": "Readings",
        "nodes": ["n1"],
        "x": 0,
        "y": 0,
        "w": 300,
        "h": 90,
    },
    {
        "id": "n1",
        "type": "inject",
        "z": "t1",
        "g": "g1",
        "name": "",
        "x": 100,
        "y": 40,
        "wires": [["n2"]],
    },
    {
        "id": "n2",
        "type": "function",
        "z": "t1",
        "name": "Sum",
        "func": "return msg;",
        "outputs": 2,
        "x": 300,
        "y": 40,
        "wires": [["n3"], []],
    },
    {"id": "n3", "type": "debug", "z": "t1", "name": "Shown", "x": 500, "y": 40, "wires": []},
    {
        "id": "c1",
        "type": "comment",
        "z": "t2",
        "name": "Why",
        "info": "Because.",
        "x": 100,
        "y": 40,
        "wires": [],
    },
    {"id": "s1", "type": "mqtt-broker", "name": "Broker", "broker": "localhost"},
]
SUBFLOWS: list[Any] = [
    {"id": "t1", "type": "tab", "label": "Home", "disabled": False, "info": "All rooms."},
    {
        "id": "f1",
        "type": "subflow",
        "name": "Limit",
        "info": "Keeps a value in bounds.",
        "category": "values",
        "in": [{"x": 40, "y": 80, "wires": [{"id": "a1"}]}],
        "out": [
            {"x": 400, "y": 40, "wires": [{"id": "a1", "port": 0}]},
            {"x": 400, "y": 120, "wires": [{"id": "a1", "port": 1}, {"id": "f1", "port": 0}]},
        ],
        "env": [{"name": "most", "type": "num", "value": "9"}],
        "status": {"x": 400, "y": 200, "wires": [{"id": "a2", "port": 0}]},
    },
    {"id": "f2", "type": "subflow", "name": "Unused", "in": [], "out": []},
    {"id": "a1", "type": "function", "z": "f1", "name": "Cut", "func": "return msg;", "outputs": 2,
     "x": 200, "y": 80, "wires": [["a2"], []]},
    {"id": "a2", "type": "status", "z": "f1", "name": "", "x": 200, "y": 160, "wires": [[]]},
    {"id": "b1", "type": "inject", "z": "t1", "name": "Go", "x": 100, "y": 40, "wires": [["b2"]]},
    {"id": "b2", "type": "subflow:f1", "z": "t1", "name": "", "x": 300, "y": 40, "wires": [["b3"], []]},
    {"id": "b3", "type": "debug", "z": "t1", "name": "Out", "x": 500, "y": 40, "wires": []},
    {"id": "s1", "type": "mqtt-broker", "name": "Broker", "broker": "localhost"},
]  # fmt: skip
WORKFLOW = n8n(
    [
        n8n_node("Start", "n8n-nodes-base.manualTrigger"),
        n8n_node("Twice", position=[200, 0]),
        n8n_node("Twice", position=[400, 0], id="other"),
        {k: v for k, v in n8n_node("No id", position=[600, 0]).items() if k != "id"},
        n8n_node("Check", "n8n-nodes-base.if", position=[800, 0]),
        n8n_node(
            "Code",
            "n8n-nodes-base.code",
            position=[900, 200],
            parameters={"jsCode": "return $('No id').all();"},
        ),
        n8n_node(
            "Note",
            "n8n-nodes-base.stickyNote",
            parameters={"content": "## Read\nme", "width": 300, "height": 200},
        ),
    ],
    {
        "Start": {"main": [[to("Twice")]]},
        "No id": {"main": [[to("Check")]]},
        "Check": {"main": [[to("Code")], []]},
    },
    id="wf1",
)
"""Two nodes of one name, one without an id, one whose outputs have names."""


def steps(content: GraphContent) -> list[Node]:
    """Return the nodes that another one of their kind may be put beside."""
    names = ("note", "group", "subflow-in", "subflow-out", "subflow-status")
    return [
        n
        for n in content.nodes.values()
        if n.type not in names and "link" not in n.type and n.points("in") and n.points("out")
    ]


class Edits:
    """Makes random changes to a graph, half of them by an approved proposal."""

    def __init__(self, bench: Workbench, graph: str, seed: int) -> None:
        self.bench, self.graph, self.chance, self.count = bench, graph, random.Random(seed), 0
        self.kinds: list[Callable[[GraphContent], Any]] = [
            self.add, self.rename, self.move, self.delete, self.set_field, self.cut, self.join, self.retitle,
            self.write_code, self.note, self.copy, self.switch, self.own_field,
        ]  # fmt: skip

    async def make(self, number: int) -> None:
        for _ in range(number):
            self.count += 1
            content = await self.bench.content(self.graph)
            change = self.chance.choice(self.kinds)(content)
            if isinstance(change, Mutation):
                await self.bench.source.apply(change)
            elif change is not None:
                await self.approve(*change)

    async def approve(self, kind: str, payload: dict[str, Any]) -> None:
        asked = an_ask(
            self.graph, self.bench.person, tool_call_id=f"c{self.count}", turn=self.count
        )
        try:
            made = await self.bench.approvals.propose({"type": kind, "payload": payload}, asked)
        except ProposalRefused:
            return
        decided = await self.bench.approvals.decide(made.id, Approve(), REVIEWER)
        assert decided.status == "applied", decided.result

    def one(self, content: GraphContent) -> Node:
        return self.chance.choice(sorted(content.nodes.values(), key=lambda node: node.key))

    def put(self, *nodes: Node, edges: Any = ()) -> Mutation:
        return Mutation(graph_key=self.graph, put_nodes=nodes, put_edges=edges)

    def add(self, content: GraphContent) -> Any:
        if not (like := steps(content)):
            return None
        beside = self.chance.choice(like)
        point = beside.points("out")[0][1].id
        inlet = beside.points("in")[0][1].id
        if self.chance.random() < 0.5:
            edge = {
                "direction": "in",
                "handleId": inlet,
                "targetNodeKey": beside.key,
                "targetHandleId": point,
            }
            data = {"name": f"Proposed {self.count}", "parameters": {"a": [1]}}
            handles = orjson.loads(beside.to_json())["handles"]
            return "create_node_with_edges", {
                "typeKey": beside.type,
                "data": data,
                "handles": handles,
                "edges": [edge],
            }
        document = {k: v for k, v in beside.to_document().items() if k not in ("origin", "process")}
        key = f"person_{self.count}"
        new = Node.model_validate({**document, "_key": key, "data": {"name": f"Made {self.count}"}})
        edge = Edge(
            key=f"edge_{self.count}", graph_key=self.graph, sheet=beside.sheet, source=beside.key, target=key,
            source_handle=point, target_handle=inlet,
        )  # fmt: skip
        return self.put(new, edges=[edge])

    def rename(self, content: GraphContent) -> Any:
        return "update_node", {
            "nodeKey": self.one(content).key,
            "changes": {"data.name": f"Called {self.count}"},
        }

    def move(self, content: GraphContent) -> Any:
        node = self.one(content)
        return self.put(node.replace(pos_x=node.pos_x + 40, pos_y=node.pos_y - 20))

    def delete(self, content: GraphContent) -> Any:
        return (
            ("delete_node", {"nodeKey": self.one(content).key}) if len(content.nodes) > 3 else None
        )

    def set_field(self, content: GraphContent) -> Any:
        return "update_node", {
            "nodeKey": self.one(content).key,
            "changes": {"data.parameters": {"p": self.count}},
        }

    def own_field(self, content: GraphContent) -> Any:
        """Set what no other format has a place for."""
        node = self.one(content)
        data = {**node.data, "ours": self.count}
        return self.put(node.replace(data=data, pinned=True))

    def switch(self, content: GraphContent) -> Any:
        node = self.one(content)
        return self.put(node.replace(data={**node.data, "disabled": True}))

    def write_code(self, content: GraphContent) -> Any:
        coded = [node for node in content.nodes.values() if node.process]
        if not coded:
            return None
        node = self.chance.choice(coded)
        return "update_node", {"nodeKey": node.key, "changes": {"process": f"return {self.count};"}}

    def note(self, content: GraphContent) -> Any:
        if "note" not in content.types or not any(
            node.type == "note" for node in content.nodes.values()
        ):
            return None
        return "create_node", {
            "typeKey": "note",
            "data": {"name": "Said", "text": f"Said {self.count}"},
        }

    def copy(self, content: GraphContent) -> Any:
        """Copy a node on the canvas: it has the name of its original, and no origin."""
        if not (like := steps(content)):
            return None
        document = {
            k: v for k, v in self.chance.choice(like).to_document().items() if k != "origin"
        }
        return self.put(
            Node.model_validate({**document, "_key": f"copy_{self.count}", "posY": 999})
        )

    def cut(self, content: GraphContent) -> Any:
        return (
            ("delete_edge", {"edgeKey": self.chance.choice(sorted(content.edges))})
            if content.edges
            else None
        )

    def join(self, content: GraphContent) -> Any:
        like = steps(content)
        if len(like) < 2:
            return None
        one, other = self.chance.sample(like, 2)
        payload = {
            "sourceKey": one.key,
            "sourceHandle": self.chance.choice(one.points("out"))[1].id,
        }
        return "create_edge", {
            **payload,
            "targetKey": other.key,
            "targetHandle": other.points("in")[0][1].id,
        }

    def retitle(self, content: GraphContent) -> Any:
        sheets = dict(content.graph.sheets_list)
        sheets[self.chance.choice(sorted(sheets))] = f"Sheet {self.count}"
        graph = content.graph.replace(description=f"Said {self.count}", sheets_list=sheets)
        return Mutation(graph_key=self.graph, graph=graph)


def comparable(content: GraphContent) -> dict[str, Any]:
    graph = content.graph.to_document()
    del graph["revision"], graph["lastUpdatedTime"]
    parts = {"nodes": content.nodes, "edges": content.edges, "types": content.types}
    return {"graph": graph} | {
        name: {key: one.to_document() for key, one in found.items()}
        for name, found in parts.items()
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [
        f"{'/'.join(c.path)}: {c.before!r:.80} | {c.after!r:.80}" for c in field_changes(one, other)
    ]


async def come_back(raw: bytes, name: str, seed: int, forms: tuple[str, ...]) -> None:
    bench = Workbench()
    graph = (await bench.take(raw, file_name=name)).graph_key
    edits = Edits(bench, graph, seed)
    for number in range(ROUNDS):
        await edits.make(3)
        before = await bench.content(graph)
        for form in forms:
            where = (name, seed, number, form)
            try:
                written = await export_file(bench.approvals, graph, form)
            except NotExportable:
                continue
            outcome: ImportOutcome = await bench.take(
                written.text(), file_name=name, graph_key=graph
            )
            after = await bench.content(graph)
            assert differences(comparable(before), comparable(after)) == [], where
            counts = (outcome.action, outcome.taken, outcome.kept, outcome.conflicts)
            assert counts == ("unchanged", 0, 0, 0), where
            assert (outcome.nodes, outcome.edges) == (len(after.nodes), len(after.edges)), where


@pytest.mark.parametrize("seed", range(8))
async def test_an_n8n_workflow_comes_back_as_the_same_graph(seed: int) -> None:
    await come_back(orjson.dumps(WORKFLOW), "workflow.json", seed, ("n8n", "nodius"))


@pytest.mark.parametrize("seed", range(8))
async def test_a_node_red_flow_comes_back_as_the_same_graph(seed: int) -> None:
    await come_back(orjson.dumps(FLOW), "flow.json", seed, ("node-red", "nodius"))


@pytest.mark.parametrize("seed", range(8))
async def test_a_node_red_flow_with_subflows_comes_back_as_the_same_graph(seed: int) -> None:
    await come_back(orjson.dumps(SUBFLOWS), "flow.json", seed, ("node-red", "nodius"))


@pytest.mark.parametrize("database", ["the same", "another"])
async def test_a_subflow_that_came_by_nodius_json_is_written_with_all_its_ends(
    database: str,
) -> None:
    bench = Workbench()
    graph = (await bench.take(SUBFLOWS)).graph_key
    content = await bench.content(graph)
    document = (await export_file(bench.approvals, graph, "nodius")).document
    bench = Workbench() if database == "another" else bench
    document["graph"]["description"] = "On its way"
    await bench.take(document)
    written = await export_file(bench.approvals, graph, "node-red")
    assert written.report.notices == ()
    entries = {entry["id"]: entry for entry in written.document}
    subflow = next(entry for entry in SUBFLOWS if entry["id"] == "f1")
    assert entries["f1"] == subflow
    assert [entry["id"] for entry in written.document if entry["type"] in ("tab", "subflow")] == [
        "t1",
        "f1",
        "f2",
    ]
    assert {**SUBFLOWS[-1]}.items() <= entries["s1"].items()
    assert "x" not in entries["s1"]
    again = Workbench()
    await again.take(written.document, graph_key=graph)
    back = await again.content(graph)
    assert (back.nodes.keys(), back.edges.keys()) == (content.nodes.keys(), content.edges.keys())
    assert back.graph.sheets_list == content.graph.sheets_list


async def test_an_end_that_was_made_here_is_written_into_its_subflow() -> None:
    bench = Workbench()
    graph = (await bench.take(SUBFLOWS)).graph_key
    stood = await bench.content(graph)
    out = stood.nodes["subflow-out-1"]
    status = stood.nodes["subflow-status"]
    new = {"_key": "third", "posY": 500, "data": {"name": "Third"}}
    made = Node.model_validate(
        {**{k: v for k, v in out.to_document().items() if k != "origin"}, **new}
    )
    edge = Edge(
        key="e", graph_key=graph, sheet=out.sheet, source="cut", target="third", source_handle="1"
    )
    alone = made.replace(key="alone", sheet=stood.nodes["go"].sheet)
    second = Node.model_validate({**status.to_document(), "_key": "second", "origin": None})
    change = Mutation(graph_key=graph, put_nodes=[made, alone, second], put_edges=[edge])
    await bench.source.apply(change)
    written = await export_file(bench.approvals, graph, "node-red")
    ends = next(entry for entry in written.document if entry["id"] == "f1")
    assert len(ends["out"]) == 3
    assert ends["out"][2]["wires"] == [{"id": "a1", "port": 1}]
    assert sorted(notice.reason for notice in written.report.notices) == [
        "a subflow has one status",
        "the sheet of this end is no subflow",
    ]
    before = await bench.content(graph)
    assert (await bench.take(written.document, graph_key=graph)).action == "unchanged"
    assert differences(comparable(before), comparable(await bench.content(graph))) == []


async def test_a_node_that_was_made_here_and_changed_in_the_tool_is_that_node() -> None:
    bench = Workbench()
    graph = (await bench.take(WORKFLOW)).graph_key
    stood = (await bench.content(graph)).nodes
    node = stood["no-id"]
    document = {name: value for name, value in node.to_document().items() if name != "origin"}
    made = Node.model_validate({**document, "_key": "made", "data": {"name": "Made", "ours": 1}})
    edge = Edge(key="drawn", graph_key=graph, source="no-id", target="made")
    await bench.source.apply(Mutation(graph_key=graph, put_nodes=[made], put_edges=[edge]))
    for number in range(ROUNDS):
        written = (await export_file(bench.approvals, graph, "n8n")).document
        entry = next(raw for raw in written["nodes"] if raw["name"] == "Made")
        entry["parameters"] = {"url": f"https://example.org/{number}"}
        outcome = await bench.take(written, graph_key=graph)
        content = await bench.content(graph)
        assert content.nodes.keys() == {*stood, "made"}
        assert (outcome.nodes, len(content.nodes)) == (8, 8)
        assert content.nodes["made"].data["ours"] == 1
        assert [key for key, one in content.edges.items() if one.target == "made"] == ["drawn"]
        if outcome.approval:
            await bench.approvals.decide(outcome.approval, Approve(), REVIEWER)
            content = await bench.content(graph)
        assert content.nodes["made"].data["parameters"] == entry["parameters"], number


@pytest.mark.parametrize("form", ["n8n", "nodius"])
async def test_a_connection_that_was_cut_and_drawn_again_is_the_same_connection(form: str) -> None:
    bench = Workbench()
    graph = (await bench.take(WORKFLOW)).graph_key
    await bench.take((await export_file(bench.approvals, graph, form)).text(), graph_key=graph)
    old = next(
        edge for edge in (await bench.content(graph)).edges.values() if edge.target == "check"
    )
    again = Edge.model_validate({**old.to_document(), "_key": "again"})
    moved = old.replace(target="code")  # its key has other ends now
    cut = Mutation(graph_key=graph, delete_edges=[old.key], put_edges=[again])
    for change in (cut, Mutation(graph_key=graph, put_edges=[moved])):
        await bench.source.apply(change)
        before = await bench.content(graph)
        for number in range(ROUNDS):
            written = (await export_file(bench.approvals, graph, "n8n")).document
            outcome = await bench.take(written, graph_key=graph)
            counts = (outcome.action, outcome.taken, outcome.kept, outcome.conflicts)
            assert counts == ("unchanged", 0, 0, 0), number
            assert differences(comparable(before), comparable(await bench.content(graph))) == []


@pytest.mark.parametrize("paths", workflow_batches())
async def test_every_workflow_comes_back_as_the_same_graph(paths: list[Path]) -> None:
    for seed, path in enumerate(paths):
        raw = await asyncio.to_thread(path.read_bytes)
        form = "node-red" if path.name.startswith("nodered") else "n8n"
        await come_back(raw, path.name, seed, (form, "nodius"))
