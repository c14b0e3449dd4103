"""Five hundred agents from one list: changes, removals, a broken item, lists that
fail, two servers.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from datasources.mock import MemoryDatabase
from graphrag.agents.agent_store import Agents
from graphrag.agents.errors import AgentListRefused
from graphrag.agents.sync import EVERY_MS, AgentLists, SyncReport
from tests.graphrag.agents.managing import ADMIN, ManagerCase, document

SOURCE = """
list:
  url: https://crm.example.com/customers
  headers: {Authorization: "Bearer {{secret.CRM}}"}
  items: $.all
template: template.yaml
id: $.slug
variables: {CITY: $.city, PHONE: $.phone}
when: $.active == true
"""
TEMPLATE = """
version: "2.0"
agent: {id: "${CITY}", name: "Help desk ${CITY}"}
session: {mode: inline, instructions: "Help people of ${CITY}. Ring ${PHONE}."}
"""


def customers(count: int, **changes: dict[str, Any]) -> dict[str, Any]:
    """Return the list; `changes` by slug, with dashes as underscores."""
    return {
        "all": [
            {"slug": f"c{i}", "city": f"City {i}", "phone": 100 + i, "active": True}
            | changes.get(f"c{i}", {})
            for i in range(count)
        ]
    }


@dataclass
class ListCase(ManagerCase):
    place: Path = field(default_factory=Path)
    outcomes: list[str] = field(default_factory=list[str])

    async def sync(self, **options: bool) -> SyncReport:
        """Do a round as another server does each time."""
        self.now += 1_000
        lists = AgentLists(self.manager(), on_synced=self.outcomes.append)
        return await lists.run(self.place / "customers.yaml", **options)

    async def states(self) -> dict[str, str]:
        return {view.id: view.state for view in await self.manager().list()}


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[ListCase]:
    (tmp_path / "customers.yaml").write_text(SOURCE)
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    async with MemoryDatabase() as database:
        yield ListCase(database, place=tmp_path)


async def test_a_list_becomes_agents_that_run_and_follow_it(case: ListCase) -> None:
    case.api.answer = customers(5, c4={"active": False})
    first = await case.sync()
    assert (first.listed, first.created, first.broken) == (5, ["c0", "c1", "c2", "c3"], [])
    assert await case.states() == {f"c{i}": "running" for i in range(4)}
    assert (await case.manager().running("c1")).document.session.instructions.source == (  # type: ignore[union-attr]
        "Help people of City 1. Ring 101."
    )
    case.api.answer = customers(5, c1={"city": "Lyon"}, c3={"active": False})
    second = await case.sync()
    assert (second.created, second.changed, second.stopped, second.unchanged) == (
        ["c4"],
        ["c1"],
        ["c3"],
        2,
    )
    agents = case.agents()
    assert {each.agent_id: each.version for each in await agents.list()} == {
        **dict.fromkeys(("c0", "c2", "c3", "c4"), 1),
        "c1": 2,
    }
    assert (await case.states())["c3"] == "stopped"
    case.api.answer = customers(5)
    third = await case.sync()
    assert (third.changed, third.started) == (["c1"], ["c3"])
    await case.manager().stop("c0")  # by a person, who knows why
    assert (await case.sync()).unchanged == 5
    assert (await case.states())["c0"] == "stopped"


async def test_one_broken_item_touches_no_other(case: ListCase) -> None:
    case.api.answer = customers(6)
    await case.sync()
    case.api.answer = customers(
        7, c1={"phone": None}, c2={"slug": "c3"}, c4={"city": "x" * 200}, c6={"slug": "not an id"}
    )
    report = await case.sync()
    assert [broken["id"] for broken in report.broken] == ["c1", "c3", "c3", "c4", "not an id"]
    assert report.stopped == ["c2"]
    assert set((await case.states()).items()) == {("c2", "stopped")} | {
        (f"c{i}", "running") for i in (0, 1, 3, 4, 5)
    }
    assert {each.version for each in await case.agents().list()} == {1}
    case.api.answer = customers(6, c5={"slug": {"no": "text"}})
    uncertain = await case.sync()
    assert (uncertain.stopped, uncertain.kept) == ([], ["c5"])  # who has no id may be any of them
    case.api.answer = {"none": 1}
    await case.sync()
    assert case.outcomes == ["ok", "broken", "broken", "refused"]
    assert (await case.states())["c5"] == "running"


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"fails": True}, "unreachable"),
        ({"status": 503}, "HTTP 503"),
        ({"answer": {"all": []}}, "empty"),
        ({"answer": {"none": 1}}, "no list"),
        ({"answer": customers(4)}, "--allow-shrink"),
        (
            {"answer": customers(10, **{f"c{i}": {"active": False} for i in range(10)})},
            "--allow-shrink",
        ),
    ],
)
async def test_a_list_that_fails_or_shrinks_changes_nothing_and_says_so(
    case: ListCase, broken: dict[str, Any], says: str
) -> None:
    case.api.answer = customers(10)
    await case.sync()
    for name, value in broken.items():
        setattr(case.api, name, value)
    report = await case.sync()
    assert says in (report.error or "")
    assert set((await case.states()).values()) == {"running"}
    [stored] = await case.manager().lists.reports()
    assert says in stored["error"]
    if says == "--allow-shrink":
        done = await case.sync(allow_shrink=True)
        assert len(done.stopped) == 10 - len(customers(4)["all"]) or len(done.stopped) == 10


async def test_what_somebody_made_by_hand_is_not_taken_over_and_keep_stops_nobody(
    case: ListCase,
) -> None:
    await case.manager().apply(document("c0", name="Mine"), ADMIN)
    case.api.answer = customers(4)
    report = await case.sync()
    assert [broken["id"] for broken in report.broken] == ["c0"]
    assert (await case.agents().get("c0")).name == "Mine"
    (case.place / "customers.yaml").write_text(SOURCE + "on_missing: keep\n")
    case.api.answer = {"all": customers(4)["all"][:3]}
    assert (await case.sync()).kept == ["c3"]
    assert (await case.states())["c3"] == "running"


async def test_a_value_changes_no_shape_and_is_replaced_once(case: ListCase) -> None:
    case.api.answer = customers(
        1, c0={"city": '${PHONE}", "channels": ["voice"], "x": "{{secret.CRM}}'}
    )
    report = await case.sync()
    assert (report.broken_total, await case.states()) == (
        1,
        {},
    )  # secrets are no words of instructions
    case.api.answer = customers(1, c0={"city": '${PHONE}", "channels": ["voice"]'})
    await case.sync()
    found = await case.manager().document("c0")
    assert found.document["agent"]["name"] == 'Help desk ${PHONE}", "channels": ["voice"]'
    assert "channels" not in found.document


async def test_a_dry_run_stores_nothing(case: ListCase) -> None:
    case.api.answer = customers(3, c2={"city": "x" * 200})
    report = await case.sync(dry_run=True)
    assert (report.created, [broken["id"] for broken in report.broken]) == (["c0", "c1"], ["c2"])
    assert (await case.states(), await case.manager().lists.reports()) == ({}, [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("list: {url: 'https://a.example.com/x'}\nid: $.id\n", "template"),
        ("list: {url: 'https://a.example.com/x'}\nid: $.id\ntemplate: none.yaml\n", "No such file"),
        ("list: {url: '{{args.x}}'}\nid: '$['\ntemplate: template.yaml\nwhen: f()\n", "when"),
        (
            "list: {url: 'https://a.example.com/x'}\nid: $.id\ntemplate: template.yaml\nsurprise: 1\n",
            "surprise",
        ),
    ],
)
async def test_a_file_that_describes_no_list_says_what_is_wrong(
    case: ListCase, text: str, says: str
) -> None:
    (case.place / "customers.yaml").write_text(text)
    with pytest.raises(AgentListRefused) as refused:
        await case.sync()
    assert says in refused.value.reason


async def test_of_two_servers_one_does_the_round(case: ListCase) -> None:
    case.api.answer = customers(8)
    done = await asyncio.gather(case.sync(), case.sync(), return_exceptions=True)
    reports = [each for each in done if isinstance(each, SyncReport)]
    refused = [each for each in done if isinstance(each, AgentListRefused)]
    assert (len(reports), len(refused)) == (1, 1)
    assert len(reports[0].created) == 8
    assert (await case.sync()).unchanged == 8


async def test_the_service_does_a_round_when_it_is_due(case: ListCase) -> None:
    case.api.answer = customers(2)

    async def ticked() -> None:
        manager = case.manager(list_files=[str(case.place / "customers.yaml")])
        lists = manager.lists
        await manager.tick(case.now)
        assert lists.round is not None
        await lists.round

    await ticked()
    assert len(await case.states()) == 2
    case.api.answer = customers(3)
    case.now += EVERY_MS - 1
    await ticked()
    assert len(await case.states()) == 2
    case.now += 2
    await ticked()
    assert len(await case.states()) == 3


async def test_a_kill_in_the_middle_is_made_good_by_the_next_round(
    case: ListCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.api.answer = customers(6)
    put = Agents.put
    calls = 0

    async def killed(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise asyncio.CancelledError
        return await put(*args, **more)

    monkeypatch.setattr(Agents, "put", killed)
    with pytest.raises(asyncio.CancelledError):
        await case.sync()
    monkeypatch.setattr(Agents, "put", put)
    assert len((await case.sync()).created) == 3
    assert await case.states() == {f"c{i}": "running" for i in range(6)}


@pytest.mark.slow
async def test_five_hundred_agents_with_nothing_changed_take_seconds(case: ListCase) -> None:
    case.api.answer = customers(500)
    assert len((await case.sync()).created) == 500
    began = time.perf_counter()
    report = await case.sync()
    assert (report.unchanged, report.broken) == (500, [])
    assert time.perf_counter() - began <= 5
    case.api.answer = {"all": customers(500, c7={"city": "Lyon"}, c9={"phone": None})["all"][:480]}
    changed = await case.sync()
    assert (changed.changed, len(changed.stopped), [b["id"] for b in changed.broken]) == (
        ["c7"],
        20,
        ["c9"],
    )
