"""Each night: what changed, check, propose. Automations over graphs of connected servers."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from graphrag.approvals import Approve
from graphrag.automations.templates import templates
from graphrag.leases import now_ms
from graphrag.llm.base import ToolMessage
from graphrag.rules import RulesProvider
from graphrag.sessions.phases import Phase
from tests.graphrag.connections.conftest import EDITOR, REVIEWER, Setting, workflow
from tests.graphrag.connections.n8n_pushes import connected as n8n_connected
from tests.graphrag.connections.n8n_pushes import puts
from tests.graphrag.connections.test_push_node_red import connected, steps
from tests.support.automations import DAY, MINUTE, finish, night_on
from tests.support.clock import Clock
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.workflow_servers import N8nDouble, NodeRed, node_red

OUTWARD = ("push", "publish", "create_workflow", "sync", "connect", "deploy")
"""Words of tools that would write to a server, or change a connection."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[NodeRed]:
    (tmp_path / "red").mkdir()
    async with node_red(tmp_path / "red") as running:
        yield running


@pytest.mark.slow
async def test_what_a_nightly_run_proposes_is_written_to_the_server_by_people_alone(
    setting: Setting, server: NodeRed
) -> None:
    await server.deploy(steps("return msg;"))
    key = await connected(setting, server.address, push="approval")
    deployed = await server.deploy(steps("return [[msg];"))  # somebody's mistake, by day
    assert await setting.changes() == {"shop": "updated"}
    nodes = await setting.source.get_nodes(key)
    [check] = [node for node in nodes if (node.data or {}).get("name") == "Check"]
    repair = {
        "nodeKey": check.key,
        "changes": {"process": "return [msg];"},
        "reason": "the code cannot be parsed",
    }
    model = ScriptedProvider(
        Says(calls=[call("read_history"), call("check_graph")]),
        Says(calls=[call(name, {"name": "shop", "graph": key}) for name in ("push", "publish")]),
        Says(calls=[call("propose_update_node", repair)]),
        finish("findings", "The code of Check was repaired."),
    )
    async with model:
        night = night_on(setting.database, model, clock=Clock(now_ms()))
        made = await night.automation(graph_key=key)
        await night.run_at(night.clock.now + DAY)
        assert (await night.session(made)).phase is Phase.WAITING_VALIDATION
        [approval] = await night.approvals.list(status="pending", by=REVIEWER)
        told = [m.content for m in model.requests[1].messages if isinstance(m, ToolMessage)]
        assert "import “shop.json”: change node check" in told[0]
        assert "cannot be parsed" in told[1]
        offered = {tool["function"]["name"] for asked in model.requests for tool in asked.tools}
        assert [name for name in offered if any(word in name for word in OUTWARD)] == []
        assert (await server.revision(), await setting.pushes.list()) == (deployed, [])
        await setting.approvals.decide(approval.id, Approve(), REVIEWER)
        await night.run_at(night.clock.now + MINUTE)
        assert (await night.session(made)).phase is Phase.COMPLETED
    [graph] = await setting.connections.graphs(await setting.connections.get("shop"), EDITOR)
    assert graph.standing == "changed_here"
    assert (await server.revision(), await setting.pushes.list()) == (deployed, [])
    push = await setting.pushes.plan("shop", key, EDITOR)
    assert push is not None
    assert (push.state, await server.revision()) == ("waiting", deployed)
    assert [change.after for change in push.changes] == ["return [msg];"]
    assert (await setting.pushes.approve(push.key, REVIEWER)).state == "verified"
    assert await server.flows() == steps("return [msg];")


async def test_the_prepared_nightly_check_repairs_a_connected_graph_and_people_push_it(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="={{ $('webhook').item.json.id }}"))
    await n8n_connected(setting, writable)
    before = copy.deepcopy(writable.workflows[workflow_id])
    night = night_on(setting.database, RulesProvider(), clock=Clock(now_ms()))
    check = templates("en")["nightly-check"]
    made = await night.automation(check.message, cron=check.cron, mode="propose", graph_key="order")
    await night.run_at(night.clock.now + DAY)
    assert (await night.session(made)).phase is Phase.WAITING_VALIDATION
    [approval] = await night.approvals.list(status="pending", by=REVIEWER)
    await setting.approvals.decide(approval.id, Approve(), REVIEWER)
    await night.run_at(night.clock.now + MINUTE)
    assert (await night.session(made)).phase is Phase.COMPLETED
    assert (await setting.pushes.list(), puts(writable)) == ([], [])
    assert writable.workflows[workflow_id] == before
    assert (await setting.pushed("order")).state == "verified"
    [_, repaired] = writable.workflows[workflow_id]["nodes"]
    assert repaired["parameters"] == {"mode": "={{ $('Webhook').item.json.id }}"}
