"""The settings choose whose model speaks in calls, and the double needs neither key nor network."""

from __future__ import annotations

import asyncio

import pytest

from graphrag.app.voice_services import calls_of
from graphrag.app.wiring import open_services
from graphrag.config import load_settings
from graphrag.voice.realtime.openai_side import OpenAISide


async def test_the_settings_choose_who_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found: list[str] = []
    for realtime, key in (
        ("auto", None),
        ("off", "sk-1"),
        ("openai", None),
        ("auto", "sk-1"),
        ("double", None),
    ):
        given = {} if key is None else {"realtime_api_key": key}
        async with open_services(load_settings(db="memory:", realtime=realtime, **given)) as services:
            models = calls_of(services).parts.models
            side = models("gpt-realtime-2.1") if models else None
            found.append("off" if side is None else "openai" if type(side) is OpenAISide else "double")
    assert found == ["off", "off", "off", "openai", "double"]


async def test_a_double_lives_as_long_as_the_connection_to_it() -> None:
    async with open_services(load_settings(db="memory:", realtime="double")) as services:
        models = calls_of(services).parts.models
        assert models is not None
        before = asyncio.all_tasks()
        side = models("gpt-realtime-2.1")
        await side.open()
        async for event in side.events():
            assert event["type"] == "session.created"
            break
        await side.close()
        await side.close()
        assert asyncio.all_tasks() <= before
