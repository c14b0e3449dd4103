"""Views, exports and pages of large graphs: whole, of one moment, few at once, and not in
the event loop.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from itertools import pairwise

import orjson
import pytest
from starlette.requests import ClientDisconnect, Request

from datasources.base import MutableGraphDataSource
from datasources.errors import RevisionConflict
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.importers.exchange import export_document
from graphrag.live.edits import create_sheet
from graphrag.workers import WorkersBusy
from server.downloads import IN_MEMORY, OF_ONE, Downloads, Step
from server.graph_json import PAGE, GraphPages, Pages, json_steps, view_steps, whole_graph
from server.workspaces import WorkspaceResolver
from tests.support.served import served
from tests.support.service import GRAPH, Service, error_of, service, token

LARGE = "large"
NODES = 2 * PAGE + 7


@pytest.fixture
async def running() -> AsyncIterator[Service]:
    async with service() as started:
        yield started


async def filled(source: MutableGraphDataSource, *, text: str = "") -> None:
    await source.create_graph(Graph(key=LARGE, name="Large", workspace="default"))
    keys = [f"n{i:05}" for i in range(NODES)]
    nodes = [
        Node(key=key, graph_key=LARGE, type="task", data={"name": key, "text": text})
        for key in keys
    ]
    edges = [
        Edge(key=f"e-{one}", graph_key=LARGE, source=one, target=other)
        for one, other in pairwise(keys)
    ]
    await source.apply(Mutation(graph_key=LARGE, put_nodes=nodes, put_edges=edges))


def a_request(user_id: str) -> Request:
    async def receive() -> dict[str, str]:
        return await asyncio.Future()

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [],
        "state": {"user_id": user_id},
    }
    return Request(scope, receive)  # pyright: ignore[reportArgumentType]


async def test_a_view_and_an_export_hold_every_node_and_edge_by_key(running: Service) -> None:
    source = running.state.backend.shared.database.source("default")
    await filled(source)
    async with running.as_() as ed:
        view = (await ed.get(f"/api/graphs/{LARGE}/view")).json()
        export = (await ed.get(f"/api/graphs/{LARGE}/export")).json()
    assert view["nodes"] == [node.to_document() for node in await source.get_nodes(LARGE)]
    assert view["edges"] == [edge.to_document() for edge in await source.get_edges(LARGE)]
    assert export == await export_document(source, LARGE)


async def test_a_view_of_a_live_graph_holds_its_unsaved_edits(running: Service) -> None:
    await filled(running.state.backend.shared.database.source("default"))
    live = await running.state.backend.live.open("default", LARGE)
    live.set_auto_save(False)
    await live.edit("ed", None, create_sheet, "Drafts")
    async with running.as_() as ed:
        view = (await ed.get(f"/api/graphs/{LARGE}/view")).json()
        export = (await ed.get(f"/api/graphs/{LARGE}/export")).json()
    assert "Drafts" in view["graph"]["sheetsList"].values()
    assert view["timestamp"] == live.timestamp
    assert [node["_key"] for node in view["nodes"]] == sorted(node.key for node in live.nodes)
    assert len(view["edges"]) == len(export["edges"]) == NODES - 1
    assert len(export["nodes"]) == NODES


async def test_pages_of_edges_hold_each_once_and_say_where_the_next_begins(
    running: Service,
) -> None:
    source = running.state.backend.shared.database.source("default")
    await filled(source)
    seen: list[str] = []
    query = {"limit": "700"}
    async with running.as_() as ed:
        while True:
            page = (await ed.get(f"/api/graphs/{LARGE}/edges", params=query)).json()
            assert len(page["edges"]) <= 700
            seen += [edge["_key"] for edge in page["edges"]]
            if "next" not in page:
                break
            query["after"] = page["next"]
    assert seen == [edge.key for edge in await source.get_edges(LARGE)]


async def test_pieces_are_small_and_written_outside_the_event_loop() -> None:
    sizes: list[int] = []
    threads: set[int] = set()

    async def pages() -> AsyncIterator[list[int]]:
        for i in range(0, 10 * PAGE, PAGE):
            yield list(range(i, i + PAGE))

    def dump(number: int) -> bytes:
        threads.add(threading.get_ident())
        return orjson.dumps(number)

    async def counted() -> AsyncIterator[Step]:
        async for step in json_steps(
            {"a": 1, "n": Pages(pages=pages(), dump=dump), "none": lambda: None}
        ):
            yield lambda made=step: sizes.append(len(piece := made())) or piece

    answer = await Downloads().answer(a_request("ed"), counted())
    sent: list[bytes] = []

    async def send(message: dict[str, bytes]) -> None:
        sent.append(message.get("body", b""))

    await answer({"type": "http"}, a_request("ed").receive, send)  # pyright: ignore[reportArgumentType]
    assert orjson.loads(b"".join(sent)) == {"a": 1, "n": list(range(10 * PAGE))}
    assert threading.get_ident() not in threads
    assert max(sizes) < 10 * PAGE


async def test_one_person_has_few_large_answers_at_once_and_another_has_theirs() -> None:
    downloads = Downloads()

    async def large() -> AsyncIterator[Step]:
        yield lambda: b"x" * (IN_MEMORY + 1)

    held = [await downloads.answer(a_request("ed"), large()) for _ in range(OF_ONE)]
    with pytest.raises(WorkersBusy):
        await downloads.answer(a_request("ed"), large())
    other = await downloads.answer(a_request("ann"), large())
    held[0].close()
    held[0] = await downloads.answer(a_request("ed"), large())
    for answer in (*held, other):
        answer.close()
    assert not downloads._held


async def test_a_small_answer_needs_no_place(running: Service) -> None:
    for _ in range(OF_ONE):
        running.state.activity.downloads.take("ed")
    await filled(running.state.backend.shared.database.source("default"), text="x" * 1000)
    async with running.as_() as ed:
        assert (await ed.get(f"/api/graphs/{GRAPH}/view")).status_code == 200
        refused = await ed.get(f"/api/graphs/{LARGE}/view")
    assert refused.status_code == 503
    assert error_of(refused)["code"] == "busy"
    assert int(refused.headers["Retry-After"]) >= 1


async def test_a_graph_that_changes_while_it_is_read_is_read_again(running: Service) -> None:
    source = running.state.backend.shared.database.source("default")
    await filled(source)
    identity = await running.state.authentication.authenticator.authenticate(token())
    place = await WorkspaceResolver(running.state.backend.workspaces, identity).of_graph(LARGE)
    changes = iter([*range(2)])

    async def changing(content: GraphPages) -> AsyncIterator[Step]:
        async for step in view_steps(content, types=[], timestamp=0):
            yield step
        number = next(changes, None)
        if number is not None:
            node = Node(key=f"new-{number}", graph_key=LARGE, type="task")
            await source.apply(Mutation(graph_key=LARGE, put_nodes=[node]))

    request = a_request("ed")
    request.scope["app"] = running.app
    answer = await whole_graph(request, place, lambda content, _: changing(content))
    sent: list[bytes] = []

    async def send(message: dict[str, bytes]) -> None:
        sent.append(message.get("body", b""))

    await answer({"type": "http"}, request.receive, send)  # pyright: ignore[reportArgumentType]
    view = orjson.loads(b"".join(sent))
    assert {"new-0", "new-1"} <= {node["_key"] for node in view["nodes"]}
    assert view["graph"]["revision"] == (await source.get_graph(LARGE)).revision
    changes = iter(range(9))
    with pytest.raises(RevisionConflict):
        await whole_graph(request, place, lambda content, _: changing(content))
    assert not running.state.activity.downloads._held


async def test_building_stops_when_the_client_has_left() -> None:
    asked = asyncio.Event()
    made = 0

    async def endless() -> AsyncIterator[Step]:
        nonlocal made
        while True:
            made += 1
            asked.set()
            yield lambda: b"x"

    ended = asyncio.get_running_loop().create_future()
    async with served() as running:

        async def view(request: Request) -> object:
            request.state.user_id = "ed"
            try:
                return await running.state.activity.downloads.answer(request, endless())
            except BaseException as exc:
                ended.set_result(exc)
                raise

        running.app.add_route("/endless", view)  # pyright: ignore[reportArgumentType]
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: here\r\n\r\n")
        await asked.wait()
        writer.close()
        async with asyncio.timeout(30):
            assert isinstance(await ended, ClientDisconnect)
