"""Says a stored call again: its caller's lines, and its tools' answers by name and arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from graphrag.bridge.transcript import INAUDIBLE
from graphrag.simulator.call_script import MAX_STEPS, CallScript
from graphrag.voice.dependencies import RecordedAnswers

Json = Mapping[str, Any]
_NOT_RECORDED = '{"success": false, "error": "not in the recorded call"}'
_ANSWER_CHARS = 600


def caller_script(call: Json) -> CallScript:
    """Return the script of a stored call's caller; the double answers as it was answered then."""
    lines: list[dict[str, Any]] = []
    greeting: str | None = None
    for entry in call["transcript"]:
        words = str(entry["content"])[:1000]
        if entry["role"] == "user" and words not in ("", INAUDIBLE):
            turn = len(lines) + 1
            tools = [tool for tool in call["tools"] if tool.get("turn") == turn]
            calls = [{"calls": tool["name"], "arguments": _arguments(tool)} for tool in tools]
            lines.append({"say": words, "replies": calls[:19]})
        elif entry["role"] == "assistant" and lines:
            if not any("says" in reply for reply in lines[-1]["replies"]):
                lines[-1]["replies"].append({"says": words[:_ANSWER_CHARS]})
        elif entry["role"] == "assistant":
            greeting = greeting or words[:_ANSWER_CHARS]
    steps: list[dict[str, Any]] = [{"wait": "answer"}]
    for line in lines[: MAX_STEPS // 2 - 1]:
        steps += [line, {"wait": "answer"}]
    about = {"name": f"replay of {call['callId']}", "greeting": greeting, "wait_s": 60}
    return CallScript.model_validate({**about, "steps": [*steps, {"hangup": True}]})


def recorded_answers(call: Json, document: Json) -> RecordedAnswers:
    """Return what gives the tools of a call's record, by name and arguments.

    An HTTP tool of the document that is not in it fails, so that nothing is sent; graphs are read.
    """
    sent = {name for name, tool in document.get("tools", {}).items() if tool.get("type") == "http"}

    def answer(name: str, arguments: Mapping[str, Any]) -> Json | None:
        for tool in call["tools"]:
            if tool["name"] == name and _arguments(tool) == dict(arguments):
                return tool
        is_kept = name in sent or name.startswith("propose_")
        return {"ok": False, "result": _NOT_RECORDED} if is_kept else None

    return answer


def quiet_document(document: Json) -> dict[str, Any]:
    """Return a document that sends nobody what its lifecycle owes; its rules of
    the outcome stay.
    """
    life = {
        name: part
        for name, part in document.get("lifecycle", {}).items()
        if name == "outcome_rules"
    }
    return {**document, "lifecycle": life}


def _arguments(tool: Json) -> dict[str, Any]:
    found = _parsed(tool.get("arguments"))
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:  # it was cut where it was stored
        return text
