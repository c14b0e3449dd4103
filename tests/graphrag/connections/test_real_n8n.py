"""What the double of n8n promises, on a running n8n.

n8n is too large to be installed for tests: name the folder `node_modules` that has it in
NODIUS_TEST_N8N (`npm install n8n@2.40.7 --ignore-scripts --omit=optional`, then
`npm rebuild sqlite3`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.graphrag.connections import test_push_n8n as pushes
from tests.graphrag.connections.conftest import ADMIN, Setting, new, workflow
from tests.support.workflow_servers import RealN8n, real_n8n

MODULES = os.environ.get("NODIUS_TEST_N8N", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODULES, reason="NODIUS_TEST_N8N names no folder with n8n"),
]
SAME = [
    pushes.test_one_parameter_is_written_and_the_rest_of_the_workflow_stays,
    pushes.test_no_stored_record_of_a_push_holds_a_secret,
    pushes.test_a_changed_field_that_holds_a_placeholder_is_refused_by_its_place,
    pushes.test_a_secret_that_is_typed_here_is_written_and_not_stored_with_the_push,
    pushes.test_what_changed_there_and_here_in_other_fields_is_both_kept,
    pushes.test_an_undo_gives_the_server_and_the_graph_what_they_had,
    pushes.test_an_undo_is_refused_where_the_field_was_changed_since,
    pushes.test_what_runs_never_changes_by_a_push,
    pushes.test_a_push_that_was_planned_for_another_change_is_not_sent,
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def n8n(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RealN8n]:
    async with real_n8n(Path(MODULES), tmp_path_factory.mktemp("n8n")) as running:
        yield running


@pytest.mark.parametrize("test", SAME, ids=lambda test: test.__name__)
async def test_as_on_the_double(
    test: Callable[[Setting, Any], Awaitable[None]], setting: Setting, n8n: RealN8n
) -> None:
    for found in n8n.ask("GET", "/workflows")["data"]:
        n8n.ask("POST", f"/workflows/{found['id']}/archive", {})
    await test(setting, n8n)


async def test_the_server_says_what_it_accepts(setting: Setting, n8n: RealN8n) -> None:
    connection = await setting.connections.add(new(n8n.address, key=n8n.key), ADMIN)
    assert {"workflow:list", "workflow:read", "workflow:update"} <= set(connection.rights)
    n8n.put(workflow("Order", "Check", mode="a"))
    assert "created" in (await setting.changes()).values()
