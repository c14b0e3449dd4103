"""Agents and their versions on every database: compare-and-set, the last twenty, rolling back."""

from __future__ import annotations

import asyncio

import pytest

from datasources.base import Database
from graphrag.agents.agent_store import KEPT_VERSIONS, VERSION_KIND, Agents
from graphrag.agents.errors import AgentChanged, AgentNotFound, AgentStateRefused, AgentTooLarge
from tests.graphrag.agents.managing import ADMIN, ManagerCase, document


@pytest.fixture
def agents(database: Database) -> Agents:
    return ManagerCase(database).agents()


async def test_a_new_version_is_current_and_the_same_document_is_none(agents: Agents) -> None:
    first = await agents.put(document(name="One"), 0, ADMIN, {"CITY": "Paris"})
    second = await agents.put(document(name="Two"), 1, ADMIN)
    again = await agents.put(document(name="Two"), 2, ADMIN)
    assert (first.version, second.version, again.version) == (1, 2, 2)
    assert (await agents.version("helpdesk", 1)).variables == {"CITY": "Paris"}
    assert (await agents.version("helpdesk", 2)).document["agent"]["name"] == "Two"
    assert [agent.name for agent in await agents.list()] == ["Two"]


async def test_who_read_an_older_version_changes_nothing(agents: Agents) -> None:
    await agents.put(document(name="One"), None, ADMIN)
    await agents.put(document(name="Two"), 1, ADMIN)
    for expected in (0, 1, 3):
        with pytest.raises(AgentChanged) as refused:
            await agents.put(document(name="Three"), expected, ADMIN)
        assert refused.value.facts["version"] == 2
    with pytest.raises(AgentChanged):
        await agents.put(document("other"), 1, ADMIN)


async def test_of_writers_at_once_one_wins(agents: Agents) -> None:
    await agents.put(document(), None, ADMIN)
    tries = (agents.put(document(name=f"N{i}"), 1, ADMIN) for i in range(6))
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(each, AgentChanged) for each in done) == 5
    stored = await agents.get("helpdesk")
    assert (stored.version, len(stored.versions)) == (2, 2)
    assert (await agents.version("helpdesk", 2)).document["agent"]["name"] == stored.name


async def test_the_last_versions_are_kept_and_one_of_them_made_current(agents: Agents) -> None:
    for number in range(KEPT_VERSIONS + 3):
        await agents.put(document(name=f"N{number}"), number, ADMIN)
    stored = await agents.get("helpdesk")
    assert [each.version for each in stored.versions] == list(range(4, 24))
    for gone in (1, 3, 99):
        with pytest.raises(AgentNotFound):
            await agents.rollback("helpdesk", gone)
    back = await agents.rollback("helpdesk", 10)
    assert (back.version, back.latest, back.name) == (10, 23, "N9")
    assert (await agents.put(document(name="new"), 10, ADMIN)).version == 24
    await agents.delete("helpdesk")
    assert await agents.find("helpdesk") is None
    assert await agents.records.query(VERSION_KIND) == []
    assert (await agents.put(document(name="again"), 0, ADMIN)).version == 1


async def test_the_current_version_is_kept_however_old(agents: Agents) -> None:
    for number in range(KEPT_VERSIONS):
        await agents.put(document(name=f"N{number}"), number, ADMIN)
    await agents.rollback("helpdesk", 1)
    assert (await agents.put(document(name="next"), 1, ADMIN)).version == 21
    assert (await agents.get("helpdesk")).current.version == 21


async def test_what_runs_is_not_deleted_and_what_is_too_large_not_stored(agents: Agents) -> None:
    await agents.put(document(), None, ADMIN)
    await agents.change("helpdesk", lambda agent: agent.model_copy(update={"desired": "running"}))
    with pytest.raises(AgentStateRefused):
        await agents.delete("helpdesk")
    with pytest.raises(AgentTooLarge):
        await agents.put(document(instructions="x" * 600_000), None, ADMIN)
    assert (await agents.get("helpdesk")).version == 1


async def test_an_agent_of_another_workspace_does_not_exist(database: Database) -> None:
    case = ManagerCase(database)
    await case.agents().put(document(), None, ADMIN)
    elsewhere = case.agents("elsewhere")
    assert await elsewhere.list() == []
    for asked in (elsewhere.get("helpdesk"), elsewhere.version("helpdesk", 1), elsewhere.delete("helpdesk")):
        with pytest.raises(AgentNotFound):
            await asked
