"""What is changed here is deployed to a real Node-RED: those fields, on the revision it has."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from graphrag.agent.turn_lease import TurnLeases
from graphrag.connections import Following, NewConnection
from graphrag.connections.editor import Editor, Preflight, RemoteDocument
from graphrag.connections.editors import open_editor
from graphrag.connections.node_red_server import NodeRedEditor
from graphrag.connections.server_http import ServerHttp, server_rules
from graphrag.connections.stored_connection import ServerConnection
from tests.graphrag.connections.conftest import ADMIN, EDITOR, REVIEWER, Setting, a_setting
from tests.support.data_files import needs_published, published
from tests.support.faulty_proxy import faulty_proxy
from tests.support.workflow_servers import NodeRed, node_red

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[NodeRed]:
    async with node_red(tmp_path_factory.mktemp("red")) as running:
        yield running


SECRET = "https://ann:pass-in-address-77@api.example.org/orders"


def flow(url: str, *, tab: str = "Orders", timeout: str = "10", **more: Any) -> list[Any]:
    return [
        {"id": f"{tab}t", "type": "tab", "label": tab, "disabled": False, "info": ""},
        {"id": f"{tab}a", "type": "inject", "z": f"{tab}t", "name": "Start", "props": [],
         "repeat": "", "x": 100, "y": 100, "wires": [[f"{tab}b"]]},
        {"id": f"{tab}b", "type": "http request", "z": f"{tab}t", "name": "Fetch", "url": url,
         "method": "GET", "timeout": timeout, "odd key": {"kept": [1, None]}, **more,
         "x": 300, "y": 100, "wires": [[]]},
    ]  # fmt: skip


async def connected(setting: Setting, address: str, **more: Any) -> str:
    """Connects and reads; returns the key of the graph."""
    usual: dict[str, Any] = {"name": "shop", "kind": "node-red", "push": "ask"}
    wanted = NewConnection(address=address, allow_private=True, **{**usual, **more})
    await setting.connections.add(wanted, ADMIN)
    await setting.changes()
    [link] = await setting.connections.links(await setting.connections.get("shop"))
    return link.graph_key


def fetch(flows: list[Any], tab: str = "Orders") -> dict[str, Any]:
    return next(entry for entry in flows if entry["id"] == f"{tab}b")


async def test_one_parameter_is_deployed_and_all_else_stays_secrets_too(
    setting: Setting, server: NodeRed
) -> None:
    before = [*flow(SECRET), *flow("http://other.example", tab="Other")]
    await server.deploy(before)
    key = await connected(setting, server.address)
    await setting.change_at(key, "Ordersb", timeout="99")
    push = await setting.pushed(key)
    assert push.state == "verified", push.reason
    assert await server.flows() == [
        {**entry, "timeout": "99"} if entry["id"] == "Ordersb" else entry for entry in before
    ]
    assert push.tokens_after["rev"] == await server.revision()
    assert [each.code for each in push.effects] == ["push_restarts"]
    assert await setting.changes() == {"shop": "unchanged"}


async def test_chosen_tabs_are_written_and_the_others_stay_in_their_place(
    setting: Setting, server: NodeRed
) -> None:
    before = [*flow("http://a.example", tab="Private"), *flow(SECRET)]
    await server.deploy(before)
    key = await connected(setting, server.address, workflows=("Order*",))
    await setting.change_at(key, "Ordersb", timeout="98")
    assert (await setting.pushed(key)).state == "verified"
    assert await server.flows() == [
        {**entry, "timeout": "98"} if entry["id"] == "Ordersb" else entry for entry in before
    ]


async def test_an_undo_brings_the_old_revision_back(setting: Setting, server: NodeRed) -> None:
    revision = await server.deploy(flow(SECRET))
    key = await connected(setting, server.address)
    await setting.change_at(key, "Ordersb", timeout="97")
    push = await setting.pushed(key)
    assert await server.revision() != revision
    undo = await setting.pushes.plan_undo(push.key, EDITOR)
    assert undo is not None
    assert (await setting.pushes.approve(undo.key, REVIEWER)).state == "verified"
    assert await server.revision() == revision


async def test_a_type_that_the_server_lacks_is_refused_and_flows_go_on(
    setting: Setting, server: NodeRed
) -> None:
    revision = await server.deploy(flow(SECRET))
    key = await connected(setting, server.address)
    await setting.copy(key, "Fetch", key="new", type="mysql")
    push = await setting.pushes.plan("shop", key, EDITOR)
    assert push is not None
    assert push.state == "refused"
    assert await server.revision() == revision


async def test_a_deleted_node_with_credentials_is_named_before(
    setting: Setting, server: NodeRed
) -> None:
    flows = flow(SECRET)
    flows[2]["credentials"] = {"user": "ann", "password": "of the server"}
    await server.deploy(flows)
    key = await connected(setting, server.address)
    nodes = await setting.source.get_nodes(key)
    [node] = [node for node in nodes if (node.data or {}).get("name") == "Fetch"]
    await setting.delete(key, node.key)
    push = await setting.pushes.plan("shop", key, EDITOR)
    assert push is not None
    assert {"push_deletes_credentials", "push_ends"} <= {each.code for each in push.effects}


class Interrupted:
    """An editor before whose writes somebody else does something."""

    def __init__(self, editor: Editor, before: Callable[[], Any]) -> None:
        self._editor = editor
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._editor, name)

    async def preflight(self, read: RemoteDocument, target: Any) -> Preflight:
        result = await self._editor.preflight(read, target)
        await self._before()
        return result


async def test_of_deployments_between_our_reading_and_writing_none_is_lost(
    server: NodeRed,
) -> None:
    rounds = 200
    deploys: list[list[Any]] = []

    async def deploy() -> None:
        if deploys:
            await server.deploy(deploys.pop())

    def opens(connection: ServerConnection, key: str) -> Any:
        return Interrupted(open_editor(connection, key), deploy)

    async with a_setting(opens=opens) as setting:
        await server.deploy(flow(SECRET, note="0"))
        key = await connected(setting, server.address)
        for number in range(rounds):
            await setting.change_at(key, "Ordersb", timeout=str(100 + number))
            push = await setting.pushes.plan("shop", key, EDITOR)
            assert push is not None
            deploys.append(flow(SECRET, timeout=fetch(await server.flows())["timeout"],
                                note=str(number)))  # fmt: skip
            ended = await setting.pushes.approve(push.key, REVIEWER)
            assert ended.state == "verified", ended.reason
            there = fetch(await server.flows())
            assert (there["timeout"], there["note"]) == (str(100 + number), str(number))
            assert there["url"] == SECRET


async def test_a_deployment_of_the_same_field_in_between_is_a_conflict(server: NodeRed) -> None:
    deploys: list[list[Any]] = []

    async def deploy() -> None:
        if deploys:
            await server.deploy(deploys.pop())

    def opens(connection: ServerConnection, key: str) -> Any:
        return Interrupted(open_editor(connection, key), deploy)

    async with a_setting(opens=opens) as setting:
        await server.deploy(flow(SECRET))
        key = await connected(setting, server.address)
        await setting.change_at(key, "Ordersb", timeout="20")
        push = await setting.pushes.plan("shop", key, EDITOR)
        assert push is not None
        deploys.append(flow(SECRET, timeout="30"))
        ended = await setting.pushes.approve(push.key, REVIEWER)
        assert (ended.state, ended.reason and ended.reason.code) == ("failed", "push_conflict")
        assert fetch(await server.flows())["timeout"] == "30"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["closed", "hangs", "500", "413", "html", "half"])
async def test_a_spoiled_answer_ends_as_what_the_server_holds(
    server: NodeRed, when: Any, what: Any
) -> None:
    def opens(connection: ServerConnection, key: str) -> Any:
        rules = server_rules(connection.address, allow_private=True)
        http = ServerHttp(connection.address, rules, request_s=2)
        return NodeRedEditor(http, key, name=connection.key)

    async with faulty_proxy(server.address) as proxy, a_setting(opens=opens) as setting:
        revision = await server.deploy(flow(SECRET))
        key = await connected(setting, proxy.address)
        await setting.change_at(key, "Ordersb", timeout="20")
        push = await setting.pushes.plan("shop", key, EDITOR)
        assert push is not None
        proxy.fault = (when, what)
        ended = await setting.pushes.approve(push.key, REVIEWER)
        timeout = fetch(await server.flows())["timeout"]
        if when == "before":
            assert (ended.state, timeout) == ("failed", "10")
        elif what == "413":  # the server said no, and had stored it
            assert (ended.state, timeout) == ("rolled_back", "10")
        else:
            assert (ended.state, timeout) == ("verified", "20")
        assert (await server.revision() == revision) == (timeout == "10")
        assert fetch(await server.flows())["url"] == SECRET


@needs_published
async def test_real_flows_are_written_in_one_field_and_their_secrets_stay(server: NodeRed) -> None:
    written = 0
    for file in published("workflows", "nodered-*.json"):
        flows = json.loads(file.read_bytes())
        ids = {entry["id"] for entry in flows if "z" in entry and "x" in entry}
        for number, entry in enumerate(flows):
            if entry["id"] in ids and entry["type"] not in ("group", "junction", "comment"):
                entry |= {"password": f"correct-horse-battery-{number}", "note": "a"}
        known = [entry for entry in flows if entry["type"] in ("function", "change", "debug")]
        target = next((entry for entry in known if "note" in entry), None)
        if target is None:
            continue
        await server.deploy(flows)
        before = await server.flows()
        async with a_setting() as setting:
            key = await connected(setting, server.address)
            assert await setting.pushes.plan("shop", key, EDITOR) is None, file.name
            await setting.change_at(key, target["id"], note="b")
            push = await setting.pushed(key)
            assert push.state == "verified", (file.name, push.reason)
        assert await server.flows() == [
            {**entry, "note": "b"} if entry["id"] == target["id"] else entry for entry in before
        ], file.name
        written += 1
    assert written >= 30


async def test_a_node_that_fails_after_a_push_is_told_with_the_push(
    setting: Setting, server: NodeRed
) -> None:
    await server.deploy(steps("return msg;"))
    key = await connected(setting, server.address)
    leases = TurnLeases(setting.database.records("default"), prefix="follower")
    following = Following(setting.connections, setting.syncs, leases)
    try:
        await following.tick()
        await setting.replace(key, "Check", process="throw new Error('no such order');")
        push = await setting.pushed(key)
        assert push.state == "verified", push.reason
        assert push.failures == ()
        while not push.failures:  # until the follower listens
            async with httpx2.AsyncClient(trust_env=False) as client:
                await client.post(f"{server.address}/inject/start")
            await asyncio.sleep(0.05)
            push = await setting.pushes.get(push.key)
        assert push.failures[0].facts == {"node": "Check", "message": "no such order"}
    finally:
        await following.close()


def steps(code: str) -> list[Any]:
    """Returns flows with a function that is started by `inject`."""
    return [
        {"id": "tab", "type": "tab", "label": "Orders"},
        {"id": "start", "type": "inject", "z": "tab", "name": "Start", "props": [], "repeat": "",
         "x": 100, "y": 100, "wires": [["check"]]},
        {"id": "check", "type": "function", "z": "tab", "name": "Check", "func": code,
         "outputs": 1, "x": 300, "y": 100, "wires": [[]]},
    ]  # fmt: skip


async def test_a_user_who_may_only_read_is_told_so(setting: Setting, tmp_path: Path) -> None:
    (tmp_path / "red").mkdir()
    async with node_red(tmp_path / "red") as red:
        await red.deploy(steps("return 1;"))
    async with node_red(tmp_path / "red", password="right password") as red:
        key = await connected(setting, red.address, key="ed:right password")
        await setting.replace(key, "Check", process="return 2;")
        push = await setting.pushed(key)
        assert (push.state, push.reason and push.reason.code) == ("failed", "push_read_only")
        assert await setting.pushes.plan("shop", key, EDITOR) is not None  # still changed here
