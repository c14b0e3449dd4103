"""The prepared automations on the sample graph, without a model: run by night, decided by day."""

from datasources.types import Edge, Mutation
from graphrag.approvals import Approval, Approve, Decision, Reject
from graphrag.automations.automation import Automation
from graphrag.automations.templates import templates
from graphrag.rules import RulesProvider
from graphrag.sessions.machine import EndReason, Phase
from tests.support.agents import GRAPH, REVIEWER
from tests.support.automations import DAY, HOUR, MINUTE, Night, night_of
from tests.support.clock import MONDAY

TWO = MONDAY + 2 * HOUR
TWICE = Edge(
    key="twice", graph_key=GRAPH, source="root", source_handle="0", target="fetch-api", target_handle="0"
)


async def nightly(night: Night) -> Automation:
    """Store a nightly check of the sample graph, to which an edge was drawn twice."""
    await night.database.source("default").apply(Mutation(graph_key=GRAPH, put_edges=[TWICE]))
    template = templates("en")["nightly-check"]
    return await night.automation(template.message, cron=template.cron, mode=template.mode)


async def decided(night: Night, decision: Decision) -> Approval:
    (approval,) = await night.approvals.list(status="pending", by=REVIEWER)
    approval = await night.approvals.decide(approval.id, decision, REVIEWER)
    assert await night.run_at(night.clock.now + MINUTE) == 1
    return approval


async def reported(night: Night, made: Automation) -> str:
    session = await night.session(made)
    assert session.end_reason is EndReason.COMPLETED
    return session.report.text


async def test_nightly_check_proposes_reports_what_was_approved_and_skips_an_unchanged_graph() -> None:
    async with night_of(RulesProvider()) as night:
        made = await nightly(night)
        assert await night.run_at(TWO) == 1
        session = await night.session(made)
        assert (session.phase, session.proposed) == (Phase.WAITING_VALIDATION, 1)
        approval = await decided(night, Approve())
        assert approval.status == "applied"
        report = await reported(night, made)
        assert "approved and is done" in report
        assert "No start reaches Sort by points" in report, "what has no repair is left for people"
        assert await night.run_at(TWO + DAY) == 1, "its own repair is looked at once more"
        assert (await night.session(made)).proposed == 0
        assert await night.run_at(TWO + 2 * DAY) == 0
        assert [skip.reason for skip in (await night.stored(made)).skipped] == ["unchanged"]


async def test_what_was_rejected_is_not_asked_again_and_the_report_says_so() -> None:
    async with night_of(RulesProvider()) as night:
        made = await nightly(night)
        await night.run_at(TWO)
        await decided(night, Reject("it is meant so"))
        assert "was rejected" in await reported(night, made)
        source = night.database.source("default")
        (node,) = await source.get_nodes_by_key(GRAPH, ["sort-stats"])
        await source.apply(Mutation(graph_key=GRAPH, put_nodes=[node.replace(pos_x=1)]))
        assert await night.run_at(TWO + DAY) == 1
        assert await night.approvals.list(status="pending", by=REVIEWER) == []
        assert "rejected before" in await reported(night, made)
