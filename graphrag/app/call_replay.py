"""Replays a stored call: the lines of its caller, and the recorded results of its tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from graphrag.agent.thread_agent import ThreadAgent
from graphrag.bridge.transcript import INAUDIBLE
from graphrag.simulator.call_script import MAX_STEPS, CallScript
from graphrag.voice.dependencies import RecordedAnswers

Json = Mapping[str, Any]
_NOT_RECORDED = '{"success": false, "error": "not in the recorded call"}'
_ANSWER_CHARS = 600
_LINE_CHARS = 1_000
_MAX_CALLS = 19  # of one line; a script has 20 replies a line
_MAX_DIALS = 50  # of a script
_BRACES = '{{ "{{" }}'  # renders as two braces


class CannotReplay(Exception):
    """Raised for a call that cannot be replayed without sending requests, or without words."""

    def __init__(self, *, call_id: str, reason: str) -> None:
        super().__init__(f"call {call_id} cannot be replayed: {reason}")
        self.call_id = call_id
        self.reason = reason


def caller_script(call: Json, *, wait_s: float = 60) -> CallScript:
    """Returns the script of a stored call's caller, with that call's answers for the double.

    Raises: CannotReplay for a call in which nobody said anything, or that was forgotten.
    """
    lines: list[dict[str, Any]] = []
    answers: list[list[str]] = [[]]  # the greeting, then what the agent said after each line
    for entry in call["transcript"]:
        words = str(entry["content"])
        if entry["role"] == "user" and words not in ("", INAUDIBLE):
            lines.append({"say": words[:_LINE_CHARS]})
            answers.append([])
        elif entry["role"] == "assistant" and words:
            answers[-1].append(words)
    if not lines:
        reason = "nobody said anything in it, or it was forgotten"
        raise CannotReplay(call_id=str(call["callId"]), reason=reason)
    greeting, *spoken = (" ".join(words)[:_ANSWER_CHARS] or None for words in answers)
    steps: list[dict[str, Any]] = [{"wait": "answer"}]
    for turn, (line, said) in enumerate(zip(lines, spoken, strict=True), start=1):
        calls = [
            {"calls": tool["name"], "arguments": arguments_of(tool)}
            for tool in call["tools"]
            if tool.get("turn") == turn
        ]
        words = [] if said is None else [{"says": said}]
        steps += [{**line, "replies": [*calls[:_MAX_CALLS], *words]}, {"wait": "answer"}]
    about: dict[str, Any] = {
        "name": f"replay of {call['callId']}",
        "greeting": greeting,
        "wait_s": wait_s,
    }
    about["dials"] = [_result(each) for each in call.get("transfers") or ()][:_MAX_DIALS]
    if call.get("endReason") == "transferred" and not about["dials"]:
        about["dials"] = ["answered"]  # attempts of older calls were not stored
    return CallScript.model_validate(
        {**about, "steps": [*steps[: MAX_STEPS - 1], {"hangup": True}]}
    )


def _result(attempt: Json) -> str:
    """Returns how an attempt of a transfer ended, in the words of a script."""
    status = attempt.get("status") or ("answered" if attempt.get("answeredTime") else "no-answer")
    if status in ("completed", "answered"):
        return "answered"
    return status if status in ("busy", "failed") else "no-answer"


def recorded_answers(call: Json, document: Json) -> RecordedAnswers:
    """Returns a function that gives the recorded result of a tool by its name and arguments.

    HTTP tools and proposals that were not recorded fail, so that nothing is sent or proposed. Tools
    that read graphs run.
    """
    sent = {name for name, tool in document.get("tools", {}).items() if tool.get("type") == "http"}

    def answer(name: str, arguments: Mapping[str, Any]) -> Json | None:
        if name not in sent and not name.startswith("propose_"):
            return None
        for tool in call["tools"]:
            if tool["name"] == name and arguments_of(tool) == dict(arguments):
                return tool
        return {"ok": False, "result": _NOT_RECORDED}

    return answer


def quiet_document(document: Json, call_id: str, stored: ThreadAgent | None) -> dict[str, Any]:
    """Returns a document that sends no request of its own: without checks, and without the requests
    of its lifecycle; its rules for outcomes stay. `stored`: the agent's part of the stored call,
    whose session replaces one that the document fetches.

    Raises: CannotReplay if the document fetches its session and the call stored none.
    """
    life = {
        name: part
        for name, part in document.get("lifecycle", {}).items()
        if name == "outcome_rules"
    }
    quiet: dict[str, Any] = {**document, "lifecycle": life, "pre_call_checks": []}
    session = document.get("session", {})
    if session.get("mode", "inline") == "inline":
        return quiet
    if stored is None or stored.declarations is None:
        reason = (
            "the document fetches its session, and none is stored with the call: "
            "write `session` with `mode: inline`"
        )
        raise CannotReplay(call_id=call_id, reason=reason)
    written = stored.instructions.replace("{{", _BRACES)
    handlers = document.get("tools", {})
    declared = [tool for tool in stored.declarations if tool.get("name") in handlers]
    inline = {"mode": "inline", "instructions": written, "tools": declared}
    return {**quiet, "session": inline}


def arguments_of(tool: Json) -> dict[str, Any]:
    """Returns the arguments of a stored tool call, none if they were cut when they were stored."""
    arguments = _parsed(tool.get("arguments"))
    return cast(dict[str, Any], arguments) if isinstance(arguments, dict) else {}


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:
        return text
