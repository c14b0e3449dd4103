"""A document is told which of its fields do nothing with the engine of its calls."""

from typing import Any

import pytest

from graphrag.agents.document_check import check_document
from tests.support.agent_life import document


def warned(**changes: Any) -> list[str]:
    checked = check_document(document(**changes))
    assert not checked.errors, checked.errors
    return [each.where for each in checked.warnings if each.code == "ignored_field"]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"voice": {"speech": {"voice": "x"}}}, ["voice.speech"]),
        ({"voice": {"engine": "text"}, "openai": {"voice": "cedar"}}, ["openai.voice"]),
        ({"voice": {"engine": "text"}, "channels": ["chat"]}, ["voice.engine"]),
        (
            {"voice": {"engine": "text", "barge_in": {"mode": "confirmed", "guard_ms": 5}}},
            ["voice.barge_in.mode", "voice.barge_in.guard_ms"],
        ),
        ({"voice": {"engine": "text", "speech": {"voice": "x"}}}, []),
        ({"voice": {}, "openai": {"voice": "cedar"}}, []),
    ],
)
def test_fields_of_the_other_engine_are_warned_of(
    changes: dict[str, Any], where: list[str]
) -> None:
    assert warned(**changes) == where


def test_a_text_engine_needs_no_known_realtime_model() -> None:
    model = {"openai": {"model": "nothing-known"}}
    known = check_document(document(voice={"engine": "text"}, **model))
    assert "unknown_model" not in {each.code for each in known.warnings}
    assert "unknown_model" in {each.code for each in check_document(document(**model)).warnings}
