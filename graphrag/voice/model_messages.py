"""Writes what is sent to the model side, and reads its events under the names of the GA interface.

Source: OpenAI API reference, "Realtime client events" and "Realtime server events".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import orjson

_GA_NAMES: Mapping[str, str] = {
    "response.audio.delta": "response.output_audio.delta",
    "response.audio.done": "response.output_audio.done",
    "response.audio_transcript.delta": "response.output_audio_transcript.delta",
    "response.audio_transcript.done": "response.output_audio_transcript.done",
    "response.text.delta": "response.output_text.delta",
    "response.text.done": "response.output_text.done",
}
"""Older names, for servers that still send them."""

FILLER = "filler"
MOST_ID_CHARS = 256
_IDS = ("id", "item_id", "previous_item_id", "response_id", "call_id")


def read_event(raw: str | bytes) -> dict[str, Any] | None:
    """Return an event of the model side; None for what is none, or has ids that are too long
    to be kept.
    """
    try:
        parsed: Any = orjson.loads(raw)
    except ValueError:
        return None
    event = cast(dict[str, Any], parsed) if isinstance(parsed, dict) else {}
    objects = [
        event,
        *(event[name] for name in ("item", "response") if isinstance(event.get(name), dict)),
    ]
    ids = (str(each.get(name, "")) for each in objects for name in _IDS)
    if not isinstance(event.get("type"), str) or any(len(each) > MOST_ID_CHARS for each in ids):
        return None
    name = _GA_NAMES.get(event["type"])
    return event if name is None else {**event, "type": name}


def append_frame(payload: str) -> str:
    """Return the frame that hands the caller's sound on; no object is made of it."""
    return f'{{"type":"input_audio_buffer.append","audio":"{payload}"}}'


def text_item(role: str, text: str) -> dict[str, Any]:
    """Return an item of the conversation that holds a text."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def output_item(call_id: str, output: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def filler_response(instructions: str) -> dict[str, Any]:
    """Return a response beside the conversation; `metadata` comes back with it, so that it
    is known again.
    """
    return {
        "conversation": "none",
        "input": [],
        "tool_choice": "none",
        "metadata": {"purpose": FILLER},
        "instructions": instructions,
    }


def spoken_response(instructions: str) -> dict[str, Any]:
    """Returns a response of the conversation that says given words; it reads nothing and
    calls no tool.
    """
    return {
        "input": [],
        "tool_choice": "none",
        "output_modalities": ["audio"],
        "instructions": instructions,
    }


def is_filler(response: Mapping[str, Any]) -> bool:
    metadata = response.get("metadata")
    return isinstance(metadata, dict) and cast(dict[str, Any], metadata).get("purpose") == FILLER
