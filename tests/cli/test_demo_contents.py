"""What the demo keeps for the page, also once its proposal has expired."""

from __future__ import annotations

import asyncio

import pytest

from datasources.base import Record
from graphrag.config import load_settings
from tests.cli.conftest import invoke, printed
from tests.support.opened import open_services


async def expire() -> None:
    """Let the proposal's time pass."""
    async with open_services(load_settings()) as services:
        records = services.database.records("default")
        made = await records.get("demo_contents", "contents")
        assert made is not None
        record = await records.get("approval", made.data["proposal"]["id"])
        assert record is not None
        data = {**record.data, "expiresTime": 1}
        late = Record(kind="approval", key=record.key, data=data)
        await records.put(late, expected_version=record.version)


def test_a_proposal_that_expired_is_made_again_in_its_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cli.demo.serve_settings", lambda *_, **__: None)

    def waiting() -> list[str]:
        threads = printed(invoke("threads", "list", "--json"))
        assert len(threads) == 3
        return [each["threadId"] for each in threads if each["status"] == "waiting"]

    async def proposed() -> str:
        async with open_services(load_settings()) as services:
            [approval] = await services.approvals.list(status="pending", by=services.local_person())
            return approval.id

    invoke("demo", "--serve", exits=0)
    [thread], first = waiting(), asyncio.run(proposed())
    asyncio.run(expire())
    invoke("demo", "--serve", exits=0)
    assert (waiting(), asyncio.run(proposed()) != first) == ([thread], True)
    findings = invoke("today").stdout.partition("Findings of automations\n")[2].splitlines()
    assert findings[0] == "  Nightly check: 2 new, 0 the same, 0 gone"
    assert findings[1].startswith("    + No start reaches ")
    [call] = printed(invoke("calls", "list", "--json"))["calls"]
    assert (call["status"], call["outcome"]) == ("ended", "answered")
