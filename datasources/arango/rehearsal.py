"""Tests on a server everything that the service does with it, in a temporary database.

The database of the address is neither read nor changed. The report contains no host, user, password
or database name, so that it can be shared.
"""

from __future__ import annotations

import asyncio
import platform
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any, cast
from urllib.parse import quote

import numpy as np
from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import layout, setup
from datasources.arango.address import ArangoAddress
from datasources.arango.connection import ArangoConnection
from datasources.arango.database import ArangoDatabase, all_statements, look_at_server, sample_binds
from datasources.arango.statements import Statement
from datasources.base import Database, Outcome, Record, RehearsalStep
from datasources.errors import RecordConflict, RevisionConflict, SourceError, SourceTimeout
from datasources.hits import Hit, NodeVector
from datasources.search import SearchRequest
from datasources.types import Edge, Graph, HandleGroup, HandlePoint, Handles, Mutation, Node

SCRATCH = "nodius_rehearsal_"
"""Names of the databases that a rehearsal makes begin so; a random part follows."""

WORKSPACE, GRAPH, LARGE, MODEL = "rehearsal", "flow", "large", "rehearsal"
NODES = 60
DIMENSION = 2  # of the sample vectors that statements are explained with
# about 6 MB, more than one transaction of a large change
LARGE_NODES, LARGE_TEXT_CHARS = (
    600,
    10_000,
)
SEARCHABLE_S = (
    30.0  # a View shows what was written after its commit interval, one second by default
)
TRAINED_S = 60.0
DEADLINE_S = 0.5
SLEEP_S = 3.0


@dataclass(frozen=True, slots=True)
class Scratch:
    """The database of a rehearsal, opened twice, as by two servers."""

    address: ArangoAddress
    first: ArangoDatabase
    second: ArangoDatabase


Check = Callable[[Scratch], Awaitable[str]]
"""Checks one part and returns the observed facts. Raises: Unexpected, LeftOut, and any failure."""

PairCheck = Callable[[Database, Database], Awaitable[str]]


_SLEEP = Statement("RETURN SLEEP(@seconds)")


class LeftOut(Exception):
    """Raised when the server lacks an optional ability."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)


class Unexpected(Exception):
    """Raised when the server does not behave as the service requires."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)


@dataclass(slots=True)
class Rehearsal:
    """The report of a running rehearsal. `said` is called after each step."""

    address: ArangoAddress
    said: Callable[[RehearsalStep], None]
    steps: list[RehearsalStep] = field(default_factory=list[RehearsalStep])
    plans: list[str] = field(default_factory=list[str])

    async def step(self, name: str, work: Callable[[], Awaitable[str]]) -> bool:
        """Runs one step and records its result. Returns whether the rehearsal may continue."""
        began = time.perf_counter()
        status: Outcome = "failed"
        try:
            detail = await work()
            status = "ok"
        except LeftOut as exc:
            detail = str(exc)
            status = "left out"
        except Unexpected as exc:
            detail = str(exc)
        except ArangoServerError as exc:
            # What the server says can quote names; its number says as much.
            detail = f"the server answered with error {exc.error_code}"
        except Exception as exc:  # noqa: BLE001 - whatever fails is what the report is for
            detail = f"{type(exc).__name__}: {exc}"
        ms = round((time.perf_counter() - began) * 1e3)
        self.steps.append(
            RehearsalStep(name=name, status=status, detail=self._anonymous(detail), ms=ms)
        )
        self.said(self.steps[-1])
        return status != "failed"

    async def explain(self, connection: ArangoConnection) -> str:
        """Records the execution plan of each statement."""
        self.plans.extend(await connection.run(plans, idempotent=True))
        return f"{len(self.plans)} statements explained"

    def _anonymous(self, text: str) -> str:
        """Returns a text without confidential facts about the server."""
        places = [host.partition("://")[2] for host in self.address.hosts]
        names = [place.rpartition(":")[0] for place in places]
        password = self.address.password
        hidden = [
            self.address.shown,
            *places,
            *names,
            *((password, quote(password)) if password else ()),
        ]
        for value in sorted(hidden, key=len, reverse=True):
            text = text.replace(value, "the server")
        return text

    def document(self) -> dict[str, Any]:
        """Returns the report in the form of its file."""
        return {
            "format": "nodius-db-rehearsal",
            "version": 1,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "program": {name: version(name) for name in ("nodius-graphrag", "python-arango")},
            "python": platform.python_version(),
            "passed": all(step.status != "failed" for step in self.steps),
            "steps": [asdict(step) for step in self.steps],
            "plans": self.plans,
        }


async def rehearse(
    address: ArangoAddress,
    said: Callable[[RehearsalStep], None],
    pair_checks: Mapping[str, PairCheck],
) -> dict[str, Any]:
    """Runs the rehearsal, including `pair_checks`, on the server of an address. Returns the report.

    The temporary database is removed even if the rehearsal is cancelled.
    """
    rehearsal = Rehearsal(address, said)
    scratch = replace(address, database=SCRATCH + secrets.token_hex(6))
    system = ArangoConnection(replace(address, database="_system"))
    try:
        if not await rehearsal.step("server", lambda: _server(system)):
            return rehearsal.document()
        try:
            if await rehearsal.step("rights and set-up", lambda: _set_up(scratch)):
                await _rehearse_within(rehearsal, scratch, pair_checks)
        finally:
            await asyncio.shield(
                rehearsal.step("clean-up", lambda: _remove(system, scratch.database))
            )
    finally:
        await system.close()
    return rehearsal.document()


async def _rehearse_within(
    rehearsal: Rehearsal, scratch: ArangoAddress, pair_checks: Mapping[str, PairCheck]
) -> None:
    checks: list[tuple[str, Check]] = [
        ("statements", _statements),
        ("search", _search),
        ("vector index", _vector_index),
        ("transactions", _transactions),
        ("large change", _large_change),
        ("deadline", _deadline),
    ]
    async with AsyncExitStack() as stack:
        opened: list[ArangoDatabase] = []

        async def connect() -> str:
            for _ in range(2):
                opened.append(await stack.enter_async_context(ArangoDatabase(scratch)))
            return "two connections"

        if not await rehearsal.step("connections", connect):
            return
        scratch_opened = Scratch(scratch, *opened)
        if not await rehearsal.step("write and read", lambda: _write_and_read(scratch_opened)):
            return  # all the rest works with what was written
        for name, check in checks:
            await rehearsal.step(name, lambda check=check: check(scratch_opened))
        for name, pair_check in pair_checks.items():
            await rehearsal.step(name, lambda check=pair_check: check(*opened))
        await rehearsal.step("plans", lambda: rehearsal.explain(opened[0].state.connection))


def plans(database: StandardDatabase) -> list[str]:
    """Returns one line for each statement, with the nodes of its plan and the names of indexes."""
    lines: list[str] = []
    for name, statement in all_statements().items():
        try:
            plan: Any = database.aql.explain(statement.text, bind_vars=sample_binds(statement))
        except ArangoServerError as exc:
            lines.append(f"{name:24} refused: error {exc.error_code}")
            continue
        lines.append(f"{name:24} {' '.join(_plan_node(node) for node in plan['nodes'])}")
    return lines


def _plan_node(node: dict[str, Any]) -> str:
    names = ",".join(str(index.get("name", "")) for index in node.get("indexes", []))
    kind = str(node["type"]).removesuffix("Node")
    return f"{kind}[{names}]" if names else kind


# Server and database


async def _server(system: ArangoConnection) -> str:
    finding = await system.run(look_at_server, idempotent=True)
    if finding.status == "error":
        raise Unexpected(reason=f"{finding.detail}; {finding.fix}")
    return finding.detail


async def _set_up(scratch: ArangoAddress) -> str:
    async with ArangoDatabase(scratch, prepared=False) as database:
        try:
            made = await database.set_up()
        except SourceError as exc:
            hint = "a rehearsal needs a user who may make databases, as root may"
            raise Unexpected(reason=f"no database could be set up ({exc}); {hint}") from exc
        again = await database.set_up()
    if again:
        raise Unexpected(reason=f"a second set-up did something again: {'; '.join(again)}")
    return f"{len(made)} parts made, and nothing at the second time"


async def _remove(system: ArangoConnection, name: str) -> str:
    def remove(_: StandardDatabase) -> bool:
        server = system.database_named("_system")
        server.delete_database(name, ignore_missing=True)
        return bool(server.has_database(name))

    if await system.run(remove):
        raise Unexpected(reason=f"the database {name} is still there: remove it by hand")
    return "the database of the rehearsal is removed"


# What the service does


async def _statements(scratch: Scratch) -> str:
    findings = await scratch.first.check()
    bad = [f"{one.name}: {one.detail}" for one in findings if one.status == "error"]
    if bad:
        raise Unexpected(reason="; ".join(bad))
    return "; ".join(
        one.detail for one in findings if one.name in ("statements", "vectors", "order")
    )


def _node(number: int, graph: str = GRAPH, text: str = "") -> Node:
    handles: Handles = {
        "L": HandleGroup(point=(HandlePoint(id="0", type="in"),)),
        "R": HandleGroup(point=(HandlePoint(id="0", type="out"),)),
    }
    name = "Weigh the copper kettle" if number == 7 else f"Step {number}"
    data = {"name": name, "text": text}
    return Node(key=f"n{number:03}", graph_key=graph, type="task", handles=handles, data=data)


async def _write_and_read(scratch: Scratch) -> str:
    nodes = [_node(number) for number in range(NODES)]
    edges = [
        Edge(key=f"e{n:03}", graph_key=GRAPH, source=f"n{n:03}", target=f"n{(n + 1) % NODES:03}")
        for n in range(NODES)
    ]
    graph = Graph(key=GRAPH, name="Rehearsal", workspace=WORKSPACE, sheets_list={"0": "main"})
    content = Mutation(graph_key=GRAPH, put_nodes=nodes, put_edges=edges)
    await scratch.first.source(WORKSPACE).create_graph(graph, content)
    source = scratch.second.source(WORKSPACE)
    if [n.to_document() for n in await source.get_nodes(GRAPH)] != [n.to_document() for n in nodes]:
        raise Unexpected(reason="nodes came back otherwise than they were written")
    if [edge.key for edge in await source.get_edges(GRAPH)] != [edge.key for edge in edges]:
        raise Unexpected(reason="edges came back otherwise than they were written")
    near = await source.get_neighborhood(GRAPH, ["n007"], max_depth=2, direction="out", limit=10)
    if [node.key for node in near.nodes] != ["n007", "n008", "n009"]:
        raise Unexpected(reason=f"walking two edges found {[node.key for node in near.nodes]}")
    return f"{NODES} nodes and as many edges, read by a second connection"


def _vectors() -> list[NodeVector]:
    values = np.random.default_rng(7).normal(size=(NODES, DIMENSION)).astype(np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return [
        NodeVector(key=f"n{number:03}", model=MODEL, hash="h", content=row, name=row)
        for number, row in enumerate(values)
    ]


async def _nearest(database: Database) -> Sequence[Hit]:
    vector = _vectors()[7].content
    request = SearchRequest(vector=(MODEL, vector), limit=5, min_score=-1.0)
    return (await database.source(WORKSPACE).search(GRAPH, request)).vector


async def _until(what: str, holds: Callable[[], Awaitable[bool]], limit_s: float) -> None:
    """Waits until `holds` returns True. Raises: Unexpected after `limit_s` seconds."""
    end = time.monotonic() + limit_s
    while not await holds():
        if time.monotonic() > end:
            raise Unexpected(reason=f"{what} within {limit_s:.0f} s")
        await asyncio.sleep(0.2)


async def _search(scratch: Scratch) -> str:
    source = scratch.first.source(WORKSPACE)

    async def finds_words(database: Database) -> bool:
        request = SearchRequest(query="copper kettle", limit=3)
        hits = await database.source(WORKSPACE).search(GRAPH, request)
        return bool(hits.text) and hits.text[0].key == "n007"

    if not await finds_words(scratch.first):
        raise Unexpected(
            reason="the exact search of words does not find the only node that has them"
        )
    async with ArangoDatabase(scratch.address, exact_nodes=0) as by_view:
        await _until(
            "the View does not find a node by its words", lambda: finds_words(by_view), SEARCHABLE_S
        )
    stored = await source.put_embeddings(GRAPH, _vectors())
    hits = await _nearest(scratch.first)
    if stored != NODES or not hits or hits[0].key != "n007" or abs(hits[0].score - 1) > 1e-3:
        raise Unexpected(
            reason="the exact search of vectors does not find a node by its own vector"
        )
    return "by words, exact and by the View; by vectors, exact"


async def _vector_index(scratch: Scratch) -> str:
    connection = scratch.first.state.connection
    found = await connection.run(setup.version_of, idempotent=True)
    if found and found < setup.VECTOR_INDEX_FROM:
        least = setup.shown(setup.VECTOR_INDEX_FROM)
        raise LeftOut(reason=f"vector indexes are used from ArangoDB {least}; search is exact")

    def make(database: StandardDatabase) -> None:
        for name in layout.VECTOR_FIELDS:
            database.collection(layout.NODES).add_index(layout.vector_index(name, DIMENSION))

    try:
        await connection.run(make)
    except SourceError as exc:
        raise LeftOut(reason=f"no vector index can be made; search is exact ({exc})") from exc

    async def is_trained() -> bool:
        indexes = await connection.run(setup.vector_indexes, idempotent=True)
        return all(setup.is_trained(index) for index in indexes.values())

    await _until("the vector index is not trained", is_trained, TRAINED_S)
    exact = [hit.key for hit in await _nearest(scratch.first)]
    async with ArangoDatabase(scratch.address, exact_nodes=0) as by_index:
        near = [hit.key for hit in await _nearest(by_index)]
    if near[:1] != exact[:1]:
        raise Unexpected(
            reason=f"the nearest node by the index is {near[:1]}, by exact search {exact[:1]}"
        )
    return f"trained; {len(set(near) & set(exact))} of the {len(exact)} nearest nodes are the exact ones"


async def _transactions(scratch: Scratch) -> str:
    source = scratch.first.source(WORKSPACE)
    records = scratch.first.records(WORKSPACE)
    changed = Mutation(graph_key=GRAPH, put_nodes=[_node(1, text="changed")])
    revision = await source.apply(changed, expected_revision=1)
    try:
        refused = Mutation(graph_key=GRAPH, put_nodes=[_node(2, text="never")])
        await scratch.second.source(WORKSPACE).apply(refused, expected_revision=1)
        raise Unexpected(reason="a change of an old revision was carried out")
    except RevisionConflict:
        pass
    after = await source.get_nodes_by_key(GRAPH, ["n001", "n002"])
    if revision != 2 or [node.data["text"] for node in after] != ["changed", ""]:
        raise Unexpected(reason="a refused change has left something, or an accepted one has not")

    async def put(database: Database, number: int) -> bool:
        record = Record(kind="rehearsal", key="one", data={"by": number})
        try:
            await database.records(WORKSPACE).put(record, expected_version=None)
        except RecordConflict:
            return False
        return True

    won = await asyncio.gather(put(scratch.first, 1), put(scratch.second, 2))
    stored = await records.get("rehearsal", "one")
    if sum(won) != 1 or stored is None or stored.data["by"] != 1 + won.index(True):
        raise Unexpected(reason=f"of two writers at once {sum(won)} were let through")
    return "an old revision is refused whole; of two writers at once one is let through"


async def _large_change(scratch: Scratch) -> str:
    nodes = [_node(number, LARGE, "x" * LARGE_TEXT_CHARS) for number in range(LARGE_NODES)]
    graph = Graph(key=LARGE, name="Large", workspace=WORKSPACE, sheets_list={"0": "main"})
    source = scratch.first.source(WORKSPACE)
    await source.create_graph(graph, Mutation(graph_key=LARGE, put_nodes=nodes))
    found = (await scratch.second.source(WORKSPACE).get_stats(LARGE)).nodes
    await source.delete_graph(LARGE)
    left = [one.key for one in await scratch.second.source(WORKSPACE).list_graphs()]
    if found != LARGE_NODES or LARGE in left:
        raise Unexpected(reason=f"{found} of {LARGE_NODES} nodes were stored, and {left} are left")
    return f"a graph of {LARGE_NODES * LARGE_TEXT_CHARS / 1e6:.0f} MB stored and deleted"


async def _deadline(scratch: Scratch) -> str:
    def sleep(database: StandardDatabase) -> None:
        database.aql.execute(
            _SLEEP.text,
            bind_vars=cast(Any, {"seconds": SLEEP_S}),
            max_runtime=cast(Any, DEADLINE_S),
        )

    connection = scratch.first.state.connection
    began = time.monotonic()
    try:
        await connection.run(sleep)
    except SourceTimeout:
        return f"a statement of {SLEEP_S:g} s was ended after {time.monotonic() - began:.1f} s"
    raise Unexpected(reason=f"a statement ran on beyond its time of {DEADLINE_S:g} s")
