"""Measures how late the event loop of a server is while people work on a large graph.

The server's own watch says it (`event_loop_late`), here from LATE_S on, and of what the server
itself computed (CPU time): what other programs take of the machine makes nothing late. Each
operation is done once, on a graph of so many nodes of about 1 kB and twice as many edges that was
read from an n8n workflow.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
from websockets.asyncio.client import connect

from tests.benchmarks.live_large_edits import ask
from tests.benchmarks.load_server import serving

SHEET_NODES = 5_000
"""Of a second graph: as many as are arranged at once."""
BEAT_S, LATE_S = 0.005, 0.02
AFTER_S = 0.3
"""So long is watched after an answer: what it left behind is freed then."""
_SERVE = (
    f"import server.housekeeping as s, time, types; s.BEAT_S, s.LATE_S = {BEAT_S}, {LATE_S}; "
    "s.time = types.SimpleNamespace(monotonic=time.process_time); "
    "from cli.main import run; run()"
)


def workflow(nodes: int, *, marked: int = 0, name: str = "Large") -> bytes:
    """Return an n8n workflow of that size; the first `marked` nodes are otherwise than without."""
    names = [f"Step {i:05}" for i in range(nodes)]

    def node(i: int) -> dict[str, Any]:
        url = f"https://api.example.com/v1/orders/{i}"
        note = f"Fetches order {i} and keeps what is left of it." + (
            " Checked." if i < marked else ""
        )
        kind = "n8n-nodes-base.httpRequest"
        place = [i % 200 * 220, i // 200 * 180]
        parameters = {"url": url, "options": {"timeout": 1000}}
        made = {
            "id": f"{i:08x}",
            "name": names[i],
            "type": kind,
            "typeVersion": 4,
            "position": place,
        }
        return {**made, "parameters": parameters, "notes": note}

    def targets(i: int) -> list[dict[str, Any]]:
        ends = dict.fromkeys((names[(i + 1) % nodes], names[(i + 7) % nodes]))
        return [{"node": end, "type": "main", "index": 0} for end in ends]

    wires = {names[i]: {"main": [targets(i)]} for i in range(nodes)}
    document = {"name": name, "nodes": [node(i) for i in range(nodes)], "connections": wires}
    return json.dumps(document, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A server, and the file of its log where its event loop is watched.

    `late_s` has the greatest lateness of each operation.
    """

    http: httpx2.AsyncClient
    port: int
    log: Path | None = None
    late_s: dict[str, float] = field(default_factory=dict[str, float])

    async def measure(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do a work and note how late the event loop was meanwhile."""
        read = self.log.stat().st_size if self.log else 0
        began = time.perf_counter()
        done = await work()
        took = f"    {name:22} {time.perf_counter() - began:6.2f} s"
        await asyncio.sleep(AFTER_S)
        if self.log:
            events = [
                json.loads(line)
                for line in self.log.read_bytes()[read:].splitlines()
                if line[:1] == b"{"
            ]
            late = [event["late_s"] for event in events if event["event"] == "event_loop_late"]
            self.late_s[name] = max(late, default=0.0)
            took += f", {self.late_s[name] * 1000:6.0f} ms late"
        print(took, flush=True)
        return done

    async def ask(
        self, name: str, method: str, path: str, *, expected: int = 200, **sent: Any
    ) -> httpx2.Response:
        """Measure a request; return its answer."""
        answer = await self.measure(name, lambda: self.http.request(method, path, **sent))
        assert answer.status_code == expected, (name, answer.status_code, answer.text[:300])
        return answer


@asynccontextmanager
async def watched() -> AsyncGenerator[Watched]:
    settings = {"NODIUS_PROVIDER": "offline", "NODIUS_EMBEDDINGS": "none"}
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as stderr:
            running = serving(
                f"sqlite:{folder}/late.db", program=_SERVE, stderr=stderr.fileno(), **settings
            )
            async with running as server, server.client(300) as http:
                yield Watched(http=http, log=log, port=server.port)


async def lateness(nodes: int, *, edits: int, fields: int) -> Watched:
    """Do every operation once; return what was measured."""
    async with watched() as it:
        await it.measure("nothing", lambda: asyncio.sleep(2))
        await work_on_whole_graphs(it, nodes, edits=edits, fields=fields)
        return it


async def work_on_whole_graphs(it: Watched, nodes: int, *, edits: int, fields: int) -> None:
    """Do every operation once on a graph of so many nodes, named `large`."""
    await _moved_in_and_out(it, nodes)
    await _changed_as_a_whole(it)
    await _looked_back(it, nodes)
    await _blamed(it, edits, fields)
    await _tidied(it, min(SHEET_NODES, nodes))


async def _moved_in_and_out(it: Watched, nodes: int) -> None:
    raw = workflow(nodes)
    graph = "/api/graphs/large"
    await it.ask("import", "POST", "/api/graphs/import?graphKey=large", content=raw)
    await it.ask("view", "GET", f"{graph}/view")
    for form in ("nodius", "n8n"):
        await it.ask(f"export {form}", "GET", f"{graph}/export?format={form}")
    await it.ask("export node-red", "GET", f"{graph}/export?format=node-red", expected=422)
    page = (await it.http.get(f"{graph}/nodes?limit=2000")).json()["nodes"]
    some = [node["_key"] for node in page]
    await it.ask("copy", "POST", f"{graph}/copy", json={"format": "n8n", "nodes": some})
    copied = await it.http.post(f"{graph}/copy", json={"format": "n8n", "nodes": some[:1000]})
    await it.ask("copy all", "POST", f"{graph}/copy", json={"format": "n8n"})
    body = {"text": copied.json()["text"], "x": 0, "y": 0, "sheet": "0"}
    await it.ask("paste", "POST", f"{graph}/paste", json=body)
    await it.ask("search", "GET", "/api/search?q=keeps what is left of order 1234")
    await it.ask("find", "GET", "/api/find?q=step 01234")
    await it.ask("uses", "GET", "/api/uses?value=api.example.com/v1")


async def _changed_as_a_whole(it: Watched) -> None:
    made = await it.ask("duplicate", "POST", "/api/graphs/large/duplicate", json={"name": "Copy"})
    copy = f"/api/graphs/{made.json()['graphKey']}"
    await it.ask("rename", "PATCH", copy, json={"name": "Renamed"})
    await it.ask("delete", "DELETE", copy)
    await it.ask("restore", "POST", f"{copy}/restore")


async def _looked_back(it: Watched, nodes: int) -> None:
    graph = "/api/graphs/large"
    [latest, *_] = (await it.http.get(f"{graph}/revisions")).json()["revisions"]
    await asyncio.sleep(0.01)
    then = latest["revision"] + 1
    raw = workflow(nodes, marked=min(4_000, nodes))
    await it.ask("import again", "POST", "/api/graphs/import?graphKey=large", content=raw)
    await it.ask("revisions", "GET", f"{graph}/revisions")
    await it.ask("as it was", "GET", f"{graph}/revisions/{then}")
    await it.ask("compare", "GET", f"{graph}/compare?from={then}")
    restore = f"{graph}/revisions/{then}/restore"
    await it.ask("restore as proposal", "POST", restore, json={"propose": True})
    await it.ask("restore revision", "POST", restore, json={})
    await it.ask("approvals", "GET", "/api/approvals")


async def _blamed(it: Watched, edits: int, fields: int) -> None:
    made = (await it.http.post("/api/graphs", json={"name": "Wide"})).json()["graphKey"]
    place = {"sheetId": "0", "graphKey": made}
    data = {f"field {i}": f"value {i}" for i in range(fields)}
    node = {"_key": "wide", "graphKey": made, "type": "note", "sheet": "0", "posX": 0, "posY": 0}
    size = {"width": 10, "height": 10, "dynamic": False}
    address = f"ws://127.0.0.1:{it.port}/ws"
    async with connect(address, proxy=None, compression=None, max_size=None) as client:
        joins = {"name": "e", "fromTimestamp": 0}
        large = partial(
            ask, client, 0, "registerUserOnGraph", graphKey="large", sheetId="0", **joins
        )
        await it.measure("open for editing", large)
        await ask(client, 0, "registerUserOnGraph", **joins, **place)
        whole = {**node, "size": size, "handles": {}, "data": data}
        answer, _ = await ask(
            client, 1, "batchCreateElements", sheetId="0", nodes=[whole], edges=[]
        )
        assert answer["_response"]["status"], answer

        async def edit() -> None:
            for number in range(edits):
                asked = {"o": 1, "p": ["data", f"field {number}"], "v": f"edit {number}"}
                step = {"i": asked, "sheetId": "0", "nodeId": "wide"}
                said, _ = await ask(
                    client, 2 + number, "applyInstructionToGraph", instructions=[step]
                )
                assert said["_response"]["status"], said

        await it.measure("edits", edit)
    await it.ask("blame", "GET", f"/api/graphs/{made}/blame?node=wide")
    await it.ask("revisions of edits", "GET", f"/api/graphs/{made}/revisions?limit=500")


async def _tidied(it: Watched, nodes: int) -> None:
    raw = workflow(nodes, name="Sheet")
    await it.http.post("/api/graphs/import?graphKey=sheet", content=raw)
    await it.ask("tidy", "POST", "/api/graphs/sheet/tidy", json={})
