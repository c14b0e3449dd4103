"""Connections are followed on when the server that followed them is killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from graphrag.approvals import Approvals
from graphrag.connections import Connections
from graphrag.connections.following import LEASE_PREFIX
from graphrag.connections.key_store import KeyStore
from graphrag.leases import KIND
from tests.graphrag.connections.conftest import ADMIN
from tests.graphrag.connections.test_following import revision
from tests.graphrag.connections.test_node_red import flow, to
from tests.server.test_two_servers import a_process, opened
from tests.support.chosen_database import address_in, database_in
from tests.support.workflow_servers import node_red

pytestmark = pytest.mark.slow


async def test_one_process_follows_and_when_it_is_killed_another_does(tmp_path: Path) -> None:
    file = tmp_path / "nodius.db"
    (tmp_path / "red").mkdir()
    async with node_red(tmp_path / "red") as server, database_in(file) as database:
        records = database.records("default")
        approvals = Approvals(database.source("default"), records)
        connections = Connections(records, approvals, KeyStore(None, {}))
        await server.deploy(flow("return msg;"))
        await connections.add(to(server, interval_s=86_400), ADMIN)
        async with a_process(address_in(file)) as (one, port), a_process(address_in(file)) as two:
            for at in (port, two[1]):
                await (await opened(at)).close()
            known = await revision(connections)
            await server.deploy(flow("return 1;"))
            known = await revision(connections, above=known)
            lease = await records.get(KIND, f"{LEASE_PREFIX}/shop")
            assert lease is not None
            follower = int(str(lease.data["owner"]).split("/")[1])
            processes = {process.pid: process for process in (one, two[0])}
            processes[follower].send_signal(signal.SIGKILL)
            await processes[follower].wait()
            await server.deploy(flow("return 2;"))
            await revision(connections, above=known)
            lease = await records.get(KIND, f"{LEASE_PREFIX}/shop")
            assert lease is not None
            assert int(str(lease.data["owner"]).split("/")[1]) in processes.keys() - {follower}
