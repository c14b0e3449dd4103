"""Says a stored call again: its caller's lines, and its tools' answers by name and arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from graphrag.voice.call_transcript import INAUDIBLE
from graphrag.voice.simulation.call_script import MAX_STEPS, CallScript

Json = Mapping[str, Any]
_KEPT = ("on_success_flags", "delayed_message", "description")
"""Of a tool that answers from the record."""
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


class RecordedApi:
    """Answers the HTTP tools of an agent from the record of a call, and sends nothing to anybody else."""

    def __init__(self, call: Json) -> None:
        self._tools = call["tools"]

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/tools/{name}", self._answer, methods=["POST"])])

    def fitted(self, document: Json, address: str) -> Json:
        """Return a document whose tools ask here, that proposes nothing and tells nobody how it went.

        What its session and checks read is read as ever.
        """
        tools = {
            name: self._asks_here(name, tool, address) for name, tool in document.get("tools", {}).items()
        }
        life = {name: part for name, part in document.get("lifecycle", {}).items() if name == "outcome_rules"}
        fitted = {**document, "tools": tools, "lifecycle": life}
        if "permissions" in document:
            fitted["permissions"] = {**document["permissions"], "propose": False}
        return fitted

    def _asks_here(self, name: str, tool: Json, address: str) -> Json:
        if tool.get("type") != "http":
            return tool
        kept = {field: tool[field] for field in _KEPT if field in tool}
        names = {argument for each in self._tools if each["name"] == name for argument in _arguments(each)}
        body = {argument: f"{{{{args.{argument}}}}}" for argument in sorted(names) if argument.isidentifier()}
        url = f"{address}/tools/{name}"
        return {**kept, "type": "http", "method": "POST", "url": url, "body": body, "retries": 0}

    async def _answer(self, request: Request) -> Response:
        name, given = request.path_params["name"], await request.json()
        for tool in self._tools:
            known = {key: value for key, value in _arguments(tool).items() if value is not None}
            if tool["name"] == name and known == given:
                status = 200 if tool.get("ok") else tool.get("status") or 500
                return JSONResponse(_parsed(tool.get("result")), status)
        return JSONResponse({"error": "not in the recorded call"}, 404)


def _arguments(tool: Json) -> dict[str, Any]:
    found = _parsed(tool.get("arguments"))
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:  # it was cut where it was stored
        return text
