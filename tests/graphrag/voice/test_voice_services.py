"""Whose model speaks in calls."""

from __future__ import annotations

import pytest

from graphrag.app.voice_services import speaker_of
from graphrag.config import Settings


@pytest.mark.parametrize(
    ("given", "speaker"),
    [
        ({}, "off"),
        ({"openai_api_key": "sk-1"}, "openai"),
        ({"openai_api_key": " "}, "off"),
        ({"realtime_api_key": "key"}, "openai"),
        ({"openai_api_key": "sk-1", "realtime": "off"}, "off"),
        ({"realtime": "double"}, "double"),
        ({"realtime": "openai"}, "openai"),
    ],
)
def test_the_settings_or_a_key_decide_who_speaks(
    given: dict[str, str], speaker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert speaker_of(Settings.model_validate(given)) == speaker
