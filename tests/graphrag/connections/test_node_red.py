"""Connections with a real Node-RED server."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from graphrag.connections import NewConnection
from graphrag.connections.errors import EditorFault
from tests.graphrag.connections.conftest import ADMIN, Setting
from tests.support.data_files import needs_published, published
from tests.support.workflow_servers import NodeRed, node_red

pytestmark = pytest.mark.slow


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[NodeRed]:
    (tmp_path / "red").mkdir()
    async with node_red(tmp_path / "red") as running:
        yield running


def to(server: NodeRed, **more: Any) -> NewConnection:
    usual: dict[str, Any] = {
        "name": "shop",
        "kind": "node-red",
        "address": server.address,
        "allow_private": True,
    }
    return NewConnection(**{**usual, **more})


def flow(text: str, *, tab: str = "Orders") -> list[dict[str, Any]]:
    return [
        {"id": f"{tab}t", "type": "tab", "label": tab},
        {"id": f"{tab}a", "z": f"{tab}t", "type": "inject", "name": "Start", "x": 100, "y": 100,
         "wires": [[f"{tab}b"]]},
        {"id": f"{tab}b", "z": f"{tab}t", "type": "function", "name": "Check", "func": text,
         "x": 300, "y": 100, "wires": [[]]},
    ]  # fmt: skip


async def test_flows_become_a_graph_and_what_is_deployed_there_is_taken(
    setting: Setting, server: NodeRed
) -> None:
    await server.deploy(flow("return msg;"))
    connection = await setting.connections.add(to(server), ADMIN)
    assert connection.server_version.startswith("5.")
    assert await setting.changes() == {"shop": "created"}
    assert await setting.changes() == {"shop": "unchanged"}
    await server.deploy(flow("return null;"))
    assert await setting.changes() == {"shop": "updated"}
    (link,) = await setting.connections.links(connection)
    nodes = await setting.source.get_nodes(link.graph_key)
    assert any("return null;" in node.model_dump_json() for node in nodes)
    assert await server.flows() == flow("return null;")


async def test_only_chosen_tabs_are_read(setting: Setting, server: NodeRed) -> None:
    await server.deploy([*flow("return msg;"), *flow("return 1;", tab="Private")])
    connection = await setting.connections.add(to(server, workflows=("Order*",)), ADMIN)
    await setting.changes()
    (link,) = await setting.connections.links(connection)
    assert link.labels == ("Orders",)
    assert len(await setting.source.get_nodes(link.graph_key)) == 2


async def test_a_user_signs_in_once_and_a_wrong_password_is_not_tried_again(
    setting: Setting, tmp_path: Path
) -> None:
    (tmp_path / "red").mkdir()
    async with node_red(tmp_path / "red", password="right password") as server:
        with pytest.raises(EditorFault) as caught:
            await setting.connections.add(to(server), ADMIN)
        assert caught.value.code == "editor_needs_key"
        with pytest.raises(EditorFault) as caught:
            await setting.connections.add(to(server, key="ed:wrong password"), ADMIN)
        assert caught.value.code == "editor_key_refused"
        assert "wrong password" not in str(caught.value)
        await setting.connections.add(to(server, key="ed:right password"), ADMIN)
        assert await setting.changes() == {}


async def test_an_empty_server_is_connected_and_filled_later(
    setting: Setting, server: NodeRed
) -> None:
    connection = await setting.connections.add(to(server), ADMIN)
    assert await setting.changes() == {}
    await server.deploy(flow("return msg;"))
    assert await setting.changes() == {"shop": "created"}
    await server.deploy([])
    assert await setting.changes() == {"shop": "gone"}
    (link,) = await setting.connections.links(connection)
    assert len(await setting.source.get_nodes(link.graph_key)) == 2
    await server.deploy(flow("return msg;"))  # of the same revision as before
    assert await setting.changes() == {"shop": "unchanged"}
    (graph,) = await setting.connections.graphs(connection, ADMIN)
    assert graph.standing == "in_step"


@needs_published
async def test_real_flows_are_read_once_and_the_server_keeps_its_revision(
    setting: Setting, server: NodeRed
) -> None:
    rounds: dict[str, list[str]] = {}
    for file in published("workflows", "nodered-*.json"):
        revision = await server.deploy(json.loads(file.read_bytes()))
        await setting.connections.add(to(server, name=file.stem), ADMIN)
        changes = [await setting.changes(file.stem) for _ in range(2)]
        rounds[file.stem] = [change[file.stem] for change in changes]
        assert await server.revision() == revision
        await setting.connections.remove(file.stem, ADMIN)
    assert len(rounds) >= 40
    assert {tuple(changes) for changes in rounds.values()} == {("created", "unchanged")}
