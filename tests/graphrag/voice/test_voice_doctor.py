"""What `doctor` says of telephone calls, with a real connection to a model that speaks."""

from __future__ import annotations

import pytest

from datasources.mock import MemoryDatabase
from graphrag.app.voice_diagnostics import examine_voice
from graphrag.config import Settings
from graphrag.voice.realtime.double import RealtimeDouble
from tests.graphrag.agents.managing import ADMIN, ManagerCase, document
from tests.support.scripted_mind import ScriptedMind

KEY = "sk-of-the-double"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "NODIUS_REALTIME", "NODIUS_PUBLIC_URL", "NODIUS_TWILIO_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


async def said(settings: Settings, *, ask: bool = False, **openai: object) -> dict[str, tuple[str, str]]:
    async with MemoryDatabase() as database:
        manager = ManagerCase(database).manager()
        await manager.apply(document(openai=openai), ADMIN)
        await manager.start("helpdesk")
        found = await examine_voice(settings, database, ask=ask)
    return {each.name: (each.status, each.detail) for each in found}


async def test_a_running_agent_that_nobody_can_call_is_a_warning() -> None:
    found = await said(Settings())
    assert found["calls"][0] == found["speaker"][0] == "warning"
    assert "NODIUS_PUBLIC_URL" in found["calls"][1]
    plain = await said(Settings(public_url="http://x.example", twilio_auth_token="t" * 32))  # type: ignore[arg-type]
    assert plain["calls"][0] == "warning"
    good = Settings(public_url="https://x.example", twilio_auth_token="t" * 32, realtime="double")  # type: ignore[arg-type]
    assert {status for status, _ in (await said(good)).values()} == {"ok"}


async def test_the_key_and_the_model_are_tried_and_the_key_is_shown_nowhere() -> None:
    async with RealtimeDouble(ScriptedMind([]), key=KEY) as double:
        settings = Settings(realtime="openai", realtime_url=double.url, realtime_api_key=KEY)  # type: ignore[arg-type]
        status, detail = (await said(settings, ask=True))["speaker"]
        assert (status, KEY in detail) == ("ok", False)
        assert "it takes gpt-realtime-2.1" in detail
        assert (await said(settings, ask=True, model="gpt-realtime"))["speaker"][0] == "warning"
        wrong = settings.model_copy(
            update={"realtime_api_key": Settings(realtime_api_key="no").realtime_api_key}
        )  # type: ignore[arg-type]
        status, detail = (await said(wrong, ask=True))["speaker"]
        assert (status, "no" in detail.split()) == ("error", False)
    assert (await said(settings, ask=True))["speaker"][0] == "error"
    assert (await said(Settings(realtime="openai")))["speaker"][0] == "error"
