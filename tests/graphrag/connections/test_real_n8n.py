"""What the double of n8n promises, on a running n8n.

n8n is too large to be installed for tests: name the folder `node_modules` that has it in
NODIUS_TEST_N8N (`npm install n8n@2.40.7 --ignore-scripts --omit=optional`, then
`npm rebuild sqlite3`).
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.graphrag.connections import test_create_n8n as creations
from tests.graphrag.connections import test_publish_n8n as publications
from tests.graphrag.connections import test_push_failures as push_failures
from tests.graphrag.connections import test_push_n8n as pushes
from tests.graphrag.connections import test_push_n8n_races as races
from tests.graphrag.connections.conftest import (
    ADMIN,
    EDITOR,
    REVIEWER,
    Setting,
    new,
    workflow,
)
from tests.graphrag.connections.n8n_pushes import SECRETS, with_secrets
from tests.support.data_files import needs_published, published
from tests.support.faulty_proxy import faulty_proxy
from tests.support.real_n8n import N8nServer, RealN8n, real_n8n

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
    publications.test_what_runs_never_changes_by_a_push,
    pushes.test_a_key_that_may_only_read_leaves_the_workflow_and_names_the_refusal,
    pushes.test_a_push_that_was_planned_for_another_change_is_not_sent,
    races.test_of_versions_written_while_ours_are_written_none_is_lost,
    publications.test_a_publication_is_decided_apart_and_says_whose_drafts_go_live,
    publications.test_a_publication_that_the_server_refuses_leaves_what_runs,
    publications.test_a_draft_that_somebody_saved_since_is_not_published,
    races.test_a_page_that_is_saved_over_a_push_is_noticed,
    creations.test_an_interrupted_creation_is_found_though_every_node_was_replaced_here_since,
    creations.test_an_interrupted_creation_is_linked_and_what_was_changed_here_since_is_pushed,
    creations.test_an_interrupted_creation_of_a_graph_that_was_deleted_since_is_there_once,
    push_failures.test_a_run_that_fails_after_a_publication_is_told_with_it_once,
    push_failures.test_a_failure_of_the_version_that_ran_before_is_not_told_with_a_draft,
    pushes.test_new_nodes_are_written_also_those_that_n8n_completes,
    publications.test_a_draft_without_a_trigger_is_not_published_and_the_reason_is_told,
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[N8nServer]:
    async with real_n8n(Path(MODULES), tmp_path_factory.mktemp("n8n")) as server:
        yield server


@pytest.fixture
async def n8n(running: N8nServer) -> AsyncGenerator[RealN8n]:
    """A running n8n without workflows, behind a proxy."""
    async with faulty_proxy(running.address) as proxy:
        found = RealN8n(running, proxy)
        found.empty()
        yield found


@pytest.mark.parametrize("test", SAME, ids=lambda test: test.__name__)
async def test_as_on_the_double(
    test: Callable[[Setting, Any], Awaitable[None]], setting: Setting, n8n: RealN8n
) -> None:
    await test(setting, n8n)


async def test_the_server_says_what_it_accepts(setting: Setting, n8n: RealN8n) -> None:
    connection = await setting.connections.add(new(n8n.address, key=n8n.key), ADMIN)
    assert {"workflow:list", "workflow:read", "workflow:update"} <= set(connection.rights)
    n8n.put(workflow("Order", "Check", mode="a"))
    assert "created" in (await setting.changes()).values()


@pytest.mark.parametrize("theirs", ["same field", "another field"])
async def test_a_version_written_while_ours_is_written_is_not_lost(
    setting: Setting, n8n: RealN8n, theirs: str
) -> None:
    server: Any = n8n
    await races.test_a_version_written_while_ours_is_written_is_not_lost(setting, server, theirs)


@pytest.mark.parametrize("fault", [None, ("after", "closed"), ("before", "closed")])
async def test_a_graph_becomes_a_workflow_there_exactly_once(
    setting: Setting, n8n: RealN8n, fault: Any
) -> None:
    server: Any = n8n
    await creations.test_a_graph_becomes_a_workflow_there_exactly_once(setting, server, fault)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["closed", "500", "413", "html", "half"])
async def test_a_spoiled_answer_ends_as_what_the_server_holds(
    setting: Setting, n8n: RealN8n, when: Any, what: Any
) -> None:
    workflow_id = n8n.put(workflow("Order", "Check", mode="a", **SECRETS))
    await setting.connections.add(new(n8n.address, key=n8n.key, push="ask"), ADMIN)
    await setting.changes()
    await setting.change("order", "Check", mode="b")
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    n8n.proxy.fault = (when, what)
    ended = await setting.pushes.approve(push.key, REVIEWER)
    parameters = n8n.workflows[workflow_id]["nodes"][1]["parameters"]
    expected = {"before": "failed", "after": "rolled_back" if what == "413" else "verified"}
    assert ended.state == expected[when], ended.reason
    assert parameters == {"mode": "b" if ended.state == "verified" else "a", **SECRETS}


@needs_published
async def test_workflows_of_others_are_the_same_after_nothing_was_changed(
    setting: Setting, n8n: RealN8n
) -> None:
    stored = 0
    for file in published("workflows", "n8n-*.json")[:100]:
        document, _ = with_secrets(json.loads(file.read_bytes()))
        with suppress(AssertionError):  # n8n refuses some as they are
            n8n.put({**document, "name": file.stem, "settings": {}})
            stored += 1
    await setting.connections.add(new(n8n.address, key=n8n.key, push="ask"), ADMIN)
    await setting.changes()
    n8n.proxy.writes.clear()
    for link in await setting.connections.links(await setting.connections.get("shop")):
        assert await setting.pushes.plan("shop", link.graph_key, EDITOR) is None, link.name
    assert stored >= 80
    assert n8n.proxy.writes == []
