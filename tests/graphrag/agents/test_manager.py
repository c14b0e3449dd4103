"""What state an agent is in and why, seen by two servers of one database, and
after a kill between.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from datasources.mock import MemoryDatabase
from graphrag.agents.agent_store import Agents
from graphrag.agents.errors import AgentNotFound, AgentNotRunning, AgentStateRefused, InvalidAgent
from graphrag.agents.manager import LOOK_MS
from tests.graphrag.agents.managing import ADMIN, ManagerCase, document
from tests.support.chosen_database import database_in
from tools.http.problems import DocumentProblem
from tools.http.secret_values import Secrets


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[ManagerCase]:
    async with database_in(tmp_path / "agents.db") as database:
        yield ManagerCase(database)


async def test_a_started_agent_runs_on_every_server_until_it_is_stopped(case: ManagerCase) -> None:
    one = case.manager()
    two = case.manager()
    await one.apply(document(), ADMIN)
    assert (await two.view("helpdesk")).state == "stopped"
    with pytest.raises(AgentNotRunning):
        await two.running("helpdesk")
    await one.start("helpdesk")
    assert (await two.view("helpdesk")).state == "running"
    assert (await two.running("helpdesk")).agent_id == "helpdesk"
    await case.conversation("helpdesk", "t1")
    await two.stop("helpdesk")
    assert (await one.view("helpdesk")).state == "draining"
    with pytest.raises(AgentNotRunning):
        await one.running("helpdesk")
    assert (await one.compiled("helpdesk", 1)).agent_id == "helpdesk"  # its conversation goes on
    with pytest.raises(AgentStateRefused):
        await one.delete("helpdesk")
    found = await case.database.records("default").get("thread", "t1")
    await case.database.records("default").delete(
        "thread", "t1", expected_version=found.version or ""
    )
    await one.delete("helpdesk")
    with pytest.raises(AgentNotFound):
        await two.view("helpdesk")


async def test_what_the_world_lacks_fails_the_agent_until_it_is_there(case: ManagerCase) -> None:
    manager = case.manager()
    await manager.apply(document(graphs=["flow", "gone"]), ADMIN)
    with pytest.raises(InvalidAgent) as refused:
        await manager.start("helpdesk")
    assert [(each.where, each.code) for each in refused.value.errors] == [
        ("graphs.1", "graph_not_found")
    ]
    (view,) = await manager.list()
    assert (view.state, view.health, view.reasons) == ("failed", "failed", ("graph_not_found",))
    case.world.graphs.add("gone")
    other = case.manager()
    await other.tick(case.now)  # a starting process looks at all that should run
    assert (await manager.view("helpdesk")).state == "running"


async def test_a_failed_agent_is_looked_at_again_each_minute(case: ManagerCase) -> None:
    manager = case.manager()
    await manager.apply(document(graphs=["gone"]), ADMIN)
    with pytest.raises(InvalidAgent):
        await manager.start("helpdesk")
    case.world.graphs.add("gone")
    case.now += LOOK_MS - 1
    await manager.tick(case.now)
    assert (await manager.view("helpdesk")).state == "failed"
    case.now += 20_000
    await manager.tick(case.now)
    assert (await manager.view("helpdesk")).state == "running"


async def test_what_is_lost_while_it_runs_degrades_it_and_a_start_says_so(
    case: ManagerCase,
) -> None:
    manager = case.manager()
    case.world.secrets = Secrets({"KEY": "a-long-secret"})
    headers = {"Authorization": "{{secret.KEY}}"}
    tool = {"type": "http", "url": "https://api.example.com/x", "headers": headers}
    uses = {"secrets": [{"name": "KEY", "hosts": ["api.example.com"]}], "tools": {"look": tool}}
    await manager.apply(document(**uses), ADMIN)
    await manager.start("helpdesk")
    case.world.secrets = Secrets({})
    case.now += LOOK_MS
    await manager.tick(case.now)
    (view,) = await case.manager().list()
    assert (view.state, view.health, view.reasons) == ("running", "degraded", ("secret_missing",))
    with pytest.raises(InvalidAgent):
        await manager.start("helpdesk")
    assert (await manager.view("helpdesk")).state == "failed"


async def test_a_new_version_is_for_new_conversations_and_the_old_stays_readable(
    case: ManagerCase,
) -> None:
    one = case.manager()
    two = case.manager()
    await one.apply(document(name="One"), ADMIN)
    await one.start("helpdesk")
    assert (await two.running("helpdesk")).document.agent.name == "One"
    await one.apply(document(name="Two"), ADMIN)
    assert (await two.running("helpdesk")).document.agent.name == "Two"
    assert (await two.compiled("helpdesk", 1)).document.agent.name == "One"
    assert (await two.compiled("helpdesk", 77)).document.agent.name == "Two"  # not kept any more
    await two.rollback("helpdesk", 1)
    assert (await one.running("helpdesk")).document.agent.name == "One"
    with pytest.raises(InvalidAgent):
        await one.apply({**document(name="Three"), "surprise": 1}, ADMIN)
    assert (await two.running("helpdesk")).document.agent.name == "One"


async def test_a_deleted_agent_that_comes_back_is_not_its_predecessor(case: ManagerCase) -> None:
    one = case.manager()
    two = case.manager()
    for name in ("Before", "After"):
        await one.apply(document(name=name), ADMIN)
        await one.start("helpdesk")
        assert (await two.running("helpdesk")).document.agent.name == name
        await one.stop("helpdesk")
        await one.delete("helpdesk")


async def test_a_kill_while_applying_leaves_the_last_version(
    case: ManagerCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = case.manager()
    await manager.apply(document(name="One"), ADMIN)
    await manager.start("helpdesk")
    write = Agents._write

    async def killed_before(*args: object) -> bool:
        raise asyncio.CancelledError

    async def killed_after(*args: object) -> bool:
        await write(*args)  # type: ignore[arg-type]
        raise asyncio.CancelledError

    monkeypatch.setattr(Agents, "_write", killed_before)
    with pytest.raises(asyncio.CancelledError):
        await manager.apply(document(name="Two"), ADMIN)
    assert (await case.manager().running("helpdesk")).document.agent.name == "One"
    monkeypatch.setattr(Agents, "_write", killed_after)
    with pytest.raises(asyncio.CancelledError):
        await manager.apply(document(name="Three"), ADMIN)
    assert (await case.manager().view("helpdesk")).state == "starting"
    await case.manager().tick(case.now)
    assert (await manager.view("helpdesk")).state == "running"
    assert (await manager.running("helpdesk")).document.agent.name == "Three"


async def test_many_servers_starting_and_stopping_at_once_agree(case: ManagerCase) -> None:
    managers = [case.manager() for _ in range(4)]
    await managers[0].apply(document(), ADMIN)
    await asyncio.gather(
        *(m.start("helpdesk") for m in managers), *(m.tick(case.now) for m in managers)
    )
    assert {(await m.view("helpdesk")).state for m in managers} == {"running"}
    await asyncio.gather(*(m.stop("helpdesk") for m in managers))
    assert {(await m.view("helpdesk")).state for m in managers} == {"stopped"}


async def test_health_counts_what_all_servers_stored() -> None:
    async with MemoryDatabase() as database:
        case = ManagerCase(database)
        manager = case.manager()
        await manager.apply(document(), ADMIN)
        await manager.start("helpdesk")
        log = [{"toolCallId": str(i), "name": "look", "ok": i > 2, "ms": 5} for i in range(10)]
        await case.conversation("helpdesk", "t1", tools=log)
        await case.conversation("helpdesk", "t2", open=False)
        (view,) = await case.manager().list()
        assert (view.calls, view.health, view.reasons) == (1, "degraded", ("tools_failing",))
        await manager.model_failed("helpdesk")
        assert (await case.manager().view("helpdesk")).reasons == (
            "model_unreachable",
            "tools_failing",
        )
        case.now += 4_000_000
        assert (await case.manager().view("helpdesk")).health == "ok"


async def test_the_voice_of_an_agent_is_tried_when_it_starts_and_not_every_minute(
    case: ManagerCase,
) -> None:
    manager = case.manager()
    await manager.apply(document(), ADMIN)
    case.world.voice = DocumentProblem(
        where="openai", code="model_refused", what="insufficient_quota: …"
    )
    with pytest.raises(InvalidAgent):
        await manager.start("helpdesk")
    assert (await manager.view("helpdesk")).state == "failed"
    case.now += 61_000
    await manager.tick()
    assert (await manager.view("helpdesk")).reasons == ("model_refused",), (
        "it does not begin to run untried"
    )
    case.world.voice = None
    case.now += 61_000
    await manager.tick()
    assert (await manager.view("helpdesk")).state == "running"
    tries = case.world.voice_tries
    for _ in range(5):
        case.now += 61_000
        await manager.tick()
    assert case.world.voice_tries == tries
