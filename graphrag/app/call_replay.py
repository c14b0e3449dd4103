"""Replays a stored call: the lines of its caller, and the recorded results of its tools."""

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
    """Returns the script of a stored call's caller, with that call's answers for the double."""
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
    """Returns a function that gives the recorded result of a tool by its name and arguments.

    HTTP tools and proposals that were not recorded fail, so that nothing is sent or proposed. Tools
    that read graphs run.
    """
    sent = {name for name, tool in document.get("tools", {}).items() if tool.get("type") == "http"}

    def answer(name: str, arguments: Mapping[str, Any]) -> Json | None:
        for tool in call["tools"]:
            if tool["name"] == name and _arguments(tool) == dict(arguments):
                return tool
        has_effects = name in sent or name.startswith("propose_")
        return {"ok": False, "result": _NOT_RECORDED} if has_effects else None

    return answer


def quiet_document(document: Json) -> dict[str, Any]:
    """Returns a document without the requests of its lifecycle; its rules for outcomes stay."""
    life = {
        name: part
        for name, part in document.get("lifecycle", {}).items()
        if name == "outcome_rules"
    }
    return {**document, "lifecycle": life}


def _arguments(tool: Json) -> dict[str, Any]:
    arguments = _parsed(tool.get("arguments"))
    return cast(dict[str, Any], arguments) if isinstance(arguments, dict) else {}


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:  # it was cut when it was stored
        return text
