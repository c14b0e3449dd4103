"""Whoever gives a wrong address or key reads what is wrong, each in a sentence of its own.

The same on a double of n8n, on a real Node-RED, and on a real n8n where NODIUS_TEST_N8N names one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from tests.cli.conftest import Env, invoke, printed
from tests.graphrag.connections.conftest import workflow
from tests.support.faulty_proxy import faulty_proxy
from tests.support.in_thread import in_thread
from tests.support.real_n8n import RealN8n, real_n8n
from tests.support.server_fronts import SIGN_IN, fronts, own_certificate
from tests.support.workflow_servers import N8N_KEY, n8n_double, node_red

MODULES = os.environ.get("NODIUS_TEST_N8N", "")
DATABASE = ".nodius/nodius.db"
PASSWORD = "right-password-0123456789"
WRONG_KEY = "wrong-key-0123456789abcdef"
FLOWS = [
    {"id": "tab", "type": "tab", "label": "Orders"},
    {"id": "check", "type": "function", "z": "tab", "name": "Check", "func": "return msg;",
     "x": 100, "y": 100, "wires": [[]]},
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusing:
    """A server with one workflow, `read_key` that may only read, and what stands in front."""

    kind: str
    address: str
    read_key: str
    wrong_key: str
    fronts: Mapping[str, str]

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no sentence, log and record may hold."""
        return (self.read_key.rpartition(":")[2], WRONG_KEY, PASSWORD)


Running = Callable[[Path], AbstractAsyncContextManager[Refusing]]


@asynccontextmanager
async def a_double(folder: Path) -> AsyncGenerator[Refusing]:
    async with n8n_double() as n8n, fronts(n8n.address, folder / "own.pem") as found:
        n8n.put(workflow("Order", "Check", mode="a"))
        yield Refusing(
            kind="n8n",
            address=n8n.address,
            read_key=N8N_KEY,
            wrong_key=WRONG_KEY,
            fronts=found,
        )


@asynccontextmanager
async def a_node_red(folder: Path) -> AsyncGenerator[Refusing]:
    (folder / "red").mkdir()
    (folder / "red" / "flows.json").write_text(json.dumps(FLOWS))
    async with (
        node_red(folder / "red", password=PASSWORD) as red,
        fronts(red.address, folder / "own.pem") as found,
    ):
        yield Refusing(
            kind="node-red",
            address=red.address,
            read_key=f"ed:{PASSWORD}",
            wrong_key=f"ed:{WRONG_KEY}",
            fronts=found,
        )


@asynccontextmanager
async def a_real_n8n(folder: Path) -> AsyncGenerator[Refusing]:
    (folder / "n8n").mkdir()
    async with (
        real_n8n(Path(MODULES), folder / "n8n") as server,
        faulty_proxy(server.address) as proxy,
        fronts(server.address, folder / "own.pem") as found,
    ):
        RealN8n(server, proxy).put(workflow("Order", "Check", mode="a"))
        yield Refusing(
            kind="n8n",
            address=server.address,
            read_key=server.read_key,
            wrong_key=WRONG_KEY,
            fronts=found,
        )


SERVERS = [
    pytest.param(a_double, id="a double of n8n"),
    pytest.param(a_node_red, id="Node-RED", marks=pytest.mark.slow),
    pytest.param(
        a_real_n8n,
        id="n8n",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(not MODULES, reason="NODIUS_TEST_N8N names no folder with n8n"),
        ],
    ),
]


@pytest.mark.parametrize("running", SERVERS)
def test_each_fault_of_an_address_or_a_key_is_told_in_a_sentence_of_its_own_without_secrets(
    folder: Path, env: Env, caplog: pytest.LogCaptureFixture, running: Running
) -> None:
    env(NODIUS_EMBEDDINGS="none", NODIUS_AUTH_SECRET="s" * 40)
    certificate = own_certificate(folder / "own.pem")
    caplog.set_level(logging.DEBUG)
    with in_thread(running(folder)) as (server, _):

        def connect(address: str, key: str = server.read_key, *more: str, exits: int) -> str:
            env(SHOP_KEY=key)
            options = ("--name", "shop", "--key-env", "SHOP_KEY", "--private", *more)
            result = invoke("connect", server.kind, address, *options, exits=exits)
            outputs.append(result.stdout + result.stderr)
            return outputs[-1].replace(address, "ADDRESS")

        outputs: list[str] = []
        told = {name: connect(address, exits=1) for name, address in server.fronts.items()}
        told["nothing there"] = connect("http://127.0.0.1:1", exits=1)
        told["wrong key"] = connect(server.address, server.wrong_key, exits=1)
        assert invoke("connections", exits=3)  # none was stored
        connected = connect(server.address, server.read_key, "--push", "ask", exits=0)
        told["read-only key"] = _of_push(folder)
        invoke("disconnect", "shop", exits=0)
        trusting = ("--certificate", str(certificate))
        connect(server.fronts["own certificate"], server.read_key, *trusting, exits=0)
    assert "it lacks: " in connected
    pages = [told.pop(name) for name in SIGN_IN if name != "a redirect"]
    assert len(set(pages)) == 1, pages
    assert len({*told.values(), *pages}) == len(told) + 1, told
    stored = b"".join(file.read_bytes() for file in (folder / DATABASE).parent.glob("*.db*"))
    everything = "\n".join([*outputs, *told.values(), caplog.text, str(stored)])
    assert [secret for secret in server.secrets if secret in everything] == []


def _of_push(folder: Path) -> str:
    """Changes the graph and pushes that; returns why the server refused it."""
    asyncio.run(_rename_check(folder / DATABASE))
    [push] = printed(invoke("push", "shop", "--yes", "--json", exits=1))
    return str(push["reason"])


async def _rename_check(file: Path) -> None:
    """Gives the node `Check` another name, as a person does here."""
    async with SqliteDatabase(file) as database:
        source = database.source("default")
        [graph] = await source.list_graphs()
        nodes = await source.get_nodes(graph.key)
        [check] = [node for node in nodes if (node.data or {}).get("name") == "Check"]
        renamed = check.replace(data={**(check.data or {}), "name": "Check again"})
        await source.apply(Mutation(graph_key=graph.key, put_nodes=[renamed]))
