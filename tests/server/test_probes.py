"""Nothing of another workspace is there: its keys behave as keys that nobody ever made up.

Strangers ask for everything, and in very many spellings, over REST and WebSocket.
"""

import asyncio
import json
import logging
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import jwt
import pytest
from websockets.asyncio.client import ClientConnection, connect

from graphrag.live.edits import create_elements, create_sheet, rename_sheet
from tests.docs.reference import openapi
from tests.server.probing import (
    TWISTS,
    Keys,
    Rest,
    Twist,
    anonymous,
    picks,
    rest_probes,
    ws_messages,
)
from tests.server.test_ws_sync import edge, node
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import Served, served
from tests.support.service import (
    CHANGE,
    GRAPH,
    SECRET,
    service,
    token,
    with_a_codemod,
    with_a_push,
    with_a_run,
    with_an_agent,
)

# When an answer was made; it differs in each.
MOMENTS = re.compile(r'"(now|since|time)":\d+')
MARK = "NBA"
"""Stands in the sample graph, and nowhere else."""

MADE_UP: Keys = {
    "graph_key": "testgraph0x1",
    "thread_id": "f" * 32,
    "approval_id": f"ap_{'0' * 24}",
    "edit_id": "1700000000000",
    "revision": "1700000000000",
    "node_key": "the-hidden-nose",
    "model": "graph:testgraph0x1",
    "edge_key": "the-hidden-edga",
    "sheet_id": "888001",
    "automation_id": "au_00000000",
    "agent_id": "hiddem-agent",
    "codemod_id": f"cm_{'0' * 24}",
    "name": "hiddem_tool",
    "delivery_id": "hiddem:on_end",
    "call_id": "hiddem-call",
    "key_id": "key_0000000000000000",
    "webhook_id": "msg_hiddem",
    "session_id": "auto/au_00000000/1700000000000",
    "connection_name": "hiddem-shop",
    "push_id": "push_1700000000000_000000000000",
}
AT_ONCE = 40
PARTS = 4
PROBES = int(os.environ.get("PROBES", "8000"))
"""Of `make slow`; 100,000 take some minutes."""
"""Of the many probes, for as many processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A service where workspace `default` holds `real`, and `elsewhere` a graph of its own."""

    running: Served
    real: Keys
    own_graph: str

    @property
    def secrets(self) -> set[str]:
        """What no stranger may read anywhere."""
        return {MARK, self.real["thread_id"], self.real["approval_id"], "hidden-nod", "hidden-edge"}

    def rest(self, bearer: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self.running.app),
            base_url=self.running.address,
            headers={"Authorization": f"Bearer {bearer}"},
        )


@asynccontextmanager
async def case() -> AsyncIterator[Case]:
    provider = ScriptedProvider(Says(calls=[call("propose_update_node", CHANGE)]))
    async with (
        served(provider, rate_limit=0, automations_at_once=0) as running,
        AsyncExitStack() as stack,
    ):
        made = Case(running=running, real={}, own_graph="")
        ed = await stack.enter_async_context(made.rest(token()))
        eve = await stack.enter_async_context(made.rest(token("eve", "admin", ("elsewhere",))))
        raw = (await ed.get(f"/api/graphs/{GRAPH}/export")).text
        raw = raw.replace(MARK, "Own").replace("api.example.com", "own.example.com")
        own = (await eve.post("/api/graphs/import?graphKey=mine", content=raw)).json()["graphKey"]
        live = await running.state.backend.live.open("default", GRAPH)
        nodes = [node("the-hidden-node"), node("hidden-node-2")]
        edges = [edge("the-hidden-edge", "the-hidden-node", "hidden-node-2")]
        await live.edit("ed", None, create_elements, "0", nodes, edges)
        await live.edit("ed", None, create_sheet, f"{MARK} sheet", key="777001")
        edit = await live.edit("ed", None, rename_sheet, "777001", f"{MARK} rows")
        # Their question is answered, and remembered by the cache.
        waits = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "hello"})).json()
        real = {
            "graph_key": GRAPH,
            "thread_id": waits["threadId"],
            "approval_id": waits["approvals"][0]["id"],
            "edit_id": str(edit.timestamp),
            "revision": str(edit.timestamp),
            "node_key": "the-hidden-node",
            "model": f"graph:{GRAPH}",
            "edge_key": "the-hidden-edge",
            "sheet_id": "777001",
            **await with_a_run(ed),
            **await with_a_codemod(ed),
            **await with_an_agent(running.state),
            **await with_a_push(running.state),
        }
        yield Case(running=running, real=real, own_graph=own)


def strangers() -> list[str]:
    """Tokens of people of other workspaces, some of whom claim more than they are given."""
    forged = {
        "sub": "ed",
        "role": "admin",
        "workspaces": ["default"],
        "exp": int(time.time()) + 600,
    }
    return [
        token("ed", "admin", ("elsewhere",)),
        token("eve", "admin", ("elsewhere", "third")),
        token("ed", "editor", ("Default",)),
        token("ed", "admin", ("default ", "*", "%", "root")),
        token("rev", "reviewer", ("elsewhere",), workspace="default"),
        token("ed", "editor", ("default",), exp=int(time.time()) - 600),
        jwt.encode(forged, SECRET + "x", algorithm="HS256"),
        jwt.encode(forged, None, algorithm="none"),
    ]


def described() -> dict[str, Any]:
    """The paths of the service's OpenAPI description."""
    return openapi()["paths"]


def endpoints() -> list[tuple[str, str]]:
    """Method and path of every endpoint that is described."""
    paths = described()
    ours = [path for path in paths if path.startswith(("/api/", "/v1/"))]
    return [(m.upper(), path) for path in ours for m in paths[path]]


async def by_rest(case: Case, count: int, part: int) -> None:
    """Send probes over REST, each compared with its twin. Another part draws other probes.

    Of few probes the strangers take turns to ask for everything; of many, each of them asks for it.
    """
    probes = rest_probes(endpoints())
    plain = [
        index
        for index, probe in enumerate(probes)
        if (probe.query, probe.workspace) in (("graph_key", None), (None, "default"))
    ]
    assert len(plain) > 80
    expected: dict[tuple[int, Rest, Twist], tuple[int, str]] = {}
    bearers = strangers()
    share = count // len(bearers)
    for number, bearer in enumerate(bearers):
        async with case.rest(bearer) as stranger:

            async def answer_to(
                probe: Rest, keys: Keys, twist: Twist, by: httpx2.AsyncClient = stranger
            ) -> Any:
                answer = await by.request(**probe.filled(keys, twist))
                text = answer.text.replace(answer.headers["X-Request-ID"], "ID")
                text = MOMENTS.sub("MOMENT", text)
                assert answer.status_code < 500, (probe, text)
                if keys is case.real:
                    assert not case.secrets & set(_words(text, case)), (probe, text)
                return answer.status_code, anonymous(text, keys, twist)

            turn, turns = (part, PARTS) if share > 100 else (number, len(bearers))
            everything = [(index, TWISTS[0]) for index in plain[turn::turns]]
            for index, twist in everything + picks(_seed(number, part), share, len(probes)):
                probe = probes[index]
                twin = (number, probe, twist)
                if twin not in expected:
                    expected[twin] = await answer_to(probe, MADE_UP, twist)
                assert await answer_to(probe, case.real, twist) == expected[twin], (
                    probe,
                    twist("KEY"),
                )


def _words(text: str, case: Case) -> list[str]:
    """Return the secrets that stand in an answer and were not in the question."""
    named = {case.real["thread_id"], case.real["approval_id"], "hidden-nod", "hidden-edge"}
    return [secret for secret in case.secrets - named if secret in text]


def _seed(number: int, part: int) -> int:
    return 1_000 * part + number


async def by_ws(case: Case, count: int, part: int) -> None:
    """Send probes over WebSocket, before and after joining a graph of one's own."""
    address = f"ws://127.0.0.1:{case.running.port}/ws"
    signed = [token("ed", "admin", ("elsewhere",)), token("eve", "editor", ("elsewhere", "third"))]
    for number, bearer in enumerate(signed):
        for joined in (False, True):
            async with connect(address, proxy=None, compression=None) as connection:
                [answer] = await asked(connection, [{"type": "authenticate", "token": bearer}])
                assert answer["success"]
                if joined:
                    joins = {
                        "type": "registerUserOnGraph",
                        "name": "n",
                        "sheetId": "0",
                        "fromTimestamp": 0,
                    }
                    [here] = await asked(connection, [{**joins, "graphKey": case.own_graph}])
                    assert here["_response"]["status"], here
                await _probe(case, connection, _seed(number * 2 + joined, part), count // 4, joined)


async def _probe(
    case: Case, connection: ClientConnection, seed: int, count: int, joined: bool
) -> None:
    kinds = len(ws_messages(MADE_UP, str))
    expected: dict[tuple[int, Twist], str] = {}
    chosen = picks(seed, count, kinds)
    for start in range(0, count, AT_ONCE):
        some = chosen[start : start + AT_ONCE]
        some = [(index, twist) for index, twist in some if not (joined and index == 1)]
        new = [twin for twin in dict.fromkeys(some) if twin not in expected]
        fakes = [ws_messages(MADE_UP, twist)[index] for index, twist in new]
        reals = [ws_messages(case.real, twist)[index] for index, twist in some]
        for twin, answer in zip(new, await asked(connection, fakes), strict=True):
            expected[twin] = anonymous(json.dumps(answer, ensure_ascii=False), MADE_UP, twin[1])
        for twin, sent, answer in zip(some, reals, await asked(connection, reals), strict=True):
            text = json.dumps(answer, ensure_ascii=False)
            assert MARK not in text
            assert anonymous(text, case.real, twin[1]) == expected[twin], sent


async def asked(
    connection: ClientConnection, messages: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Send messages and return their answers in the same order, without what differs anyhow.

    Edits are sent at once; a message about a conversation waits for its answer, because a second
    one about the same conversation would be refused as busy.
    """
    found: dict[int, dict[str, Any]] = {}
    async with asyncio.timeout(60):
        for number, message in enumerate(messages, start=1):
            await connection.send(json.dumps({**message, "_id": number}))
            while len(found) < number and (
                message["type"].startswith("ai:") or number == len(messages)
            ):
                answer = json.loads(await connection.recv())
                if isinstance(answer.get("_id"), int) and answer["_id"] not in found:
                    found[answer.pop("_id")] = answer
    return [found[number] for number in range(1, len(messages) + 1)]


async def probed(count: int, caplog: pytest.LogCaptureFixture, part: int = 0) -> None:
    """Probe so often; then nothing was answered, logged or counted, and nothing was changed."""
    async with case() as it, it.rest(token("rev", "reviewer")) as reviewer:
        before = await _state(it, reviewer)
        caplog.clear()
        with caplog.at_level(logging.INFO):
            await by_ws(it, count * 7 // 10, part)
            await by_rest(it, count * 3 // 10, part)
        # The client that the test uses logs addresses too; they are not the service's.
        ours = [record for record in caplog.records if not record.name.startswith("httpx2")]
        assert ours
        logged = "\n".join(str(record.__dict__) for record in ours)
        counted = it.running.state.monitoring.metrics.text().decode()
        assert not [
            secret for secret in (MARK, "hidden-nod", "hidden-edge", GRAPH) if secret in logged
        ]
        named = (*it.secrets, GRAPH, it.own_graph, "default", "elsewhere", "third", '"ed"', '"eve"')
        assert not [name for name in named if name in counted]
        assert await _state(it, reviewer) == before


async def _state(case: Case, reviewer: httpx2.AsyncClient) -> list[Any]:
    paths = (
        f"/api/graphs/{GRAPH}/export",
        f"/api/graphs/{GRAPH}/history",
        "/api/approvals",
        "/api/audit",
    )
    return [(await reviewer.get(path)).json() for path in paths]


async def test_probes_tell_nothing_of_another_workspace(caplog: pytest.LogCaptureFixture) -> None:
    await probed(50, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
async def test_many_probes_tell_nothing_of_another_workspace(
    part: int, caplog: pytest.LogCaptureFixture
) -> None:
    await probed(PROBES // PARTS, caplog, part)


async def test_an_import_does_not_tell_whether_a_key_is_taken_elsewhere() -> None:
    async with (
        service() as running,
        running.as_() as ed,
        running.as_("eve", "admin", "other") as eve,
    ):
        before = (await ed.get(f"/api/graphs/{GRAPH}/nodes")).json()
        document = (await ed.get(f"/api/graphs/{GRAPH}/export")).json()
        document["nodes"] = document["nodes"][:1]
        document["edges"] = []
        for path in ("created", "unchanged"):
            answers: list[str] = []
            for key in (GRAPH, "testgraph0x1"):
                answer = await eve.post(
                    "/api/graphs/import", json=document, params={"graphKey": key}
                )
                assert (answer.status_code, answer.json()["action"]) == (200, path)
                answers.append(answer.text.replace(key, "KEY"))
            assert answers[0] == answers[1]
        assert (await ed.get(f"/api/graphs/{GRAPH}/nodes")).json() == before
        assert len((await eve.get("/api/graphs")).json()["graphs"]) == 2
