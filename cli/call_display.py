"""Prints telephone calls: rows of lists, transcripts, and the messages of a call in progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from cli import render
from cli.common import local_time
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.simulator.script_player import CheckedExpectation, node_key

Json = Mapping[str, Any]
SPEAKERS = {"user": "caller", "assistant": "agent", "system": "note"}
STYLES = {"user": "bold", "system": "dim"}
MAX_NODES = 12
COLUMN_CHARS = 56  # width of each of two calls that are printed side by side


def list_row(call: Json) -> list[str]:
    """Returns the row of a call in a list."""
    return [
        call["callId"],
        call["agentId"],
        call["channel"],
        local_time(call["startedTime"]),
        _seconds(call.get("durationSec")),
        call["status"],
        call.get("outcome") or call.get("endReason") or "",
    ]


def show_call(call: Json) -> None:
    """Prints a call: its transcript, tools, proposals and end."""
    numbers = " → ".join(call.get(name) or "?" for name in ("callerPhone", "calledPhone"))
    began = local_time(call["startedTime"], "seconds")
    render.line(
        f"{call['callId']}  {call['agentId']} v{call['agentVersion']}  {began}  {numbers}", "bold"
    )
    _show_transcript(call)
    for approval in call.get("approvals", ()):
        code = approval.get("spokenCode")
        render.line(f"proposal {approval.get('approvalId')}{f' ({code})' if code else ''}")
    for attempt in call.get("transfers", ()):
        length = _seconds(attempt.get("seconds"))
        result = attempt.get("status") or ("answered" if attempt.get("answeredTime") else "rings")
        render.line(
            f"transfer to {attempt['destination']}: {result}{f', {length} s' if length else ''}"
        )
    for recording in call.get("recordings", ()):
        length = _seconds(recording.get("seconds"))
        render.line(
            f"recording {recording['sid']}: {recording['status']}{f', {length} s' if length else ''}"
        )
    ended = call.get("endReason") or call["status"]
    length = _seconds(call.get("durationSec"))
    outcome = call.get("outcome")
    render.line(
        f"{ended}{f' after {length} s' if length else ''}{f'; outcome {outcome}' if outcome else ''}"
    )
    if error := call.get("modelError"):
        refusal = ModelRefusal.model_validate(error)
        render.line(f"the model's service says: {refusal.sentence()}", "yellow")


def _show_transcript(call: Json) -> None:
    """Prints the transcript, then the tools that ran and the nodes that answers rest on."""
    for entry in call.get("transcript", ()):
        _show_words(str(entry.get("role")), str(entry.get("content")), entry)
    for tool in call.get("tools", ()):
        _show_tool(tool)
    for source in call.get("sources", ()):
        _show_sources(source)


def _show_words(role: str, words: str, entry: Json) -> None:
    cut = (
        f"  [interrupted after {entry.get('heardMs', 0) / 1000:.1f} s]"
        if entry.get("interrupted")
        else ""
    )
    render.quote(f"{SPEAKERS.get(role, role)}: ", words + cut, STYLES.get(role))


def _show_tool(tool: Json) -> None:
    ms = tool.get("ms", tool.get("durationMs"))
    render.line(f"  tool {tool.get('name')}: {'ok' if tool.get('ok') else 'failed'}{_duration(ms)}")


def _duration(ms: Any) -> str:
    return "" if ms is None else f", {ms:.0f} ms"


def _show_sources(source: Json) -> None:
    nodes = [node_key(node) for node in source.get("nodes", ())]
    more = f" and {len(nodes) - MAX_NODES} more" if len(nodes) > MAX_NODES else ""
    render.line(f"  sources in {source.get('graph')}: {', '.join(nodes[:MAX_NODES])}{more}")


def show_message(message: Json) -> None:
    """Prints a message of a call in progress; words once they are final."""
    match message["type"]:
        case "call:said" if message.get("final"):
            _show_words(str(message.get("role")), str(message.get("text")), message)
        case "call:tool" if message.get("phase") == "finished":
            _show_tool(message)
        case "call:sources":
            _show_sources(message)
        case "call:proposal":
            render.line(f"  proposal {message.get('approvalId')} ({message.get('spokenCode')})")
        case "call:state":
            render.note(f"the call is {message.get('status')}")
        case "call:ended":
            render.line(f"{message.get('reason')}; outcome {message.get('outcome')}")
        case _:
            pass


def show_checked(checked: Sequence[CheckedExpectation]) -> None:
    """Prints each expectation of a script, with the actual value if it does not hold."""
    for one in checked:
        actual = "" if one.holds else f" (found: {one.found})"
        render.line(
            f"{'holds' if one.holds else 'MISSING'}: {one.what}{actual}",
            None if one.holds else "red",
        )


def show_side_by_side(before: Json, after: Json) -> None:
    """Prints two calls side by side: transcript, tools and outcome."""
    pairs = [("recorded", "now"), *zip_longest(_summary(before), _summary(after), fillvalue="")]
    for number, pair in enumerate(pairs):
        wrapped = [wrap(text, COLUMN_CHARS) for text in pair]
        for left, right in zip_longest(*wrapped, fillvalue=""):
            render.line(f"{left:<{COLUMN_CHARS}} | {right}".rstrip(), None if number else "bold")


def _summary(call: Json) -> list[str]:
    words = [
        f"{SPEAKERS.get(str(entry.get('role')), '')}: {entry.get('content')}"
        for entry in call.get("transcript", ())
        if entry.get("role") != "system"
    ]
    tools = [
        f"tool {tool.get('name')}: {'ok' if tool.get('ok') else 'failed'}"
        for tool in call.get("tools", ())
    ]
    return [*words, *tools, f"outcome: {call.get('outcome')}"]


def _seconds(seconds: Any) -> str:
    return "" if seconds is None else f"{seconds:.1f}"
