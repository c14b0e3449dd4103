"""What answers in place of a workflow server is told apart from what the server itself refuses."""

from __future__ import annotations

import pytest

from graphrag.connections.errors import EditorFault, EditorUnreachable
from graphrag.connections.stored_connection import EditorKind
from tests.graphrag.connections.conftest import ADMIN, Setting, new, workflow
from tests.support.loopback_api import Arrived
from tests.support.raw_api import answer, raw_api
from tests.support.server_fronts import PAGE, SIGN_IN
from tests.support.workflow_servers import N8nDouble

OTHERS = {
    "a page that is not found": (answer(PAGE, 404, "text/html"), "editor_not_there"),
    "another program's JSON": (answer({"data": {"hello": 1}}), "editor_not_there"),
    "a gateway whose server is away": (answer(PAGE, 502, "text/html"), "editor_status"),
    "a server that starts": (answer({"code": 503}, 503), "editor_status"),
    "a broken server": (answer(PAGE, 500, "text/html"), "editor_status"),
    **{name: (page, "editor_sign_in_page") for name, page in SIGN_IN.items()},
    "a redirect": (SIGN_IN["a redirect"], "editor_redirects"),
}


@pytest.mark.parametrize("kind", ["n8n", "node-red"])
@pytest.mark.parametrize("other", OTHERS)
async def test_each_kind_of_answer_that_is_not_the_servers_has_its_own_fault(
    setting: Setting, kind: EditorKind, other: str
) -> None:
    said, code = OTHERS[other]
    async with raw_api() as api:
        api.answers = [said]
        with pytest.raises(EditorFault) as caught:
            await setting.connections.add(new(api.url, kind=kind), ADMIN)
    assert caught.value.code == code


@pytest.mark.parametrize("status", [401, 403])
async def test_a_page_of_a_proxy_says_nothing_about_the_key_which_is_tried_again_later(
    setting: Setting, n8n: N8nDouble, status: int
) -> None:
    n8n.put(workflow("Order", "Check"))
    await setting.connections.add(new(n8n.address), ADMIN)
    n8n.api.answers["GET /api/v1/workflows"] = (status, PAGE)
    with pytest.raises(EditorFault) as caught:
        await setting.changes()
    assert caught.value.code == "editor_sign_in_page"
    n8n.answer_all()
    assert await setting.changes() == {"Order": "created"}


async def test_a_server_behind_a_gateway_that_cannot_reach_it_counts_as_away(
    setting: Setting, n8n: N8nDouble
) -> None:
    n8n.put(workflow("Order", "Check"))
    await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()
    n8n.api.answers["GET /api/v1/workflows"] = (502, PAGE)
    with pytest.raises(EditorUnreachable):
        await setting.changes()
    assert (await setting.connections.get("shop")).unreachable_since_time is not None


async def test_a_list_of_another_program_leaves_every_graph_as_it_is(
    setting: Setting, n8n: N8nDouble
) -> None:
    n8n.put(workflow("Order", "Check"))
    await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()

    def other(_request: Arrived) -> object:
        return {"hello": "world"}

    n8n.api.answers["GET /api/v1/workflows"] = other
    with pytest.raises(EditorFault) as caught:
        await setting.changes()
    assert caught.value.code == "editor_not_there"
    n8n.answer_all()
    assert await setting.changes() == {"Order": "unchanged"}


@pytest.mark.parametrize(("push", "missing"), [("never", ()), ("ask", ("workflow:update",))])
async def test_a_right_to_write_is_missed_by_connections_that_write(
    setting: Setting, n8n: N8nDouble, push: str, missing: tuple[str, ...]
) -> None:
    connection = await setting.connections.add(new(n8n.address, push=push), ADMIN)
    assert connection.missing_rights == missing
