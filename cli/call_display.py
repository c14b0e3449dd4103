"""How telephone calls are shown on a terminal: lists, transcripts, and what
happens as it happens.
"""

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
SIDE = 56
"""Width of one call where two stand beside each other."""


def list_row(call: Json) -> list[str]:
    """Return the row of a call in a list of them."""
    return [
        call["callId"],
        call["agentId"],
        call["channel"],
        local_time(call["startedTime"]),
        seconds_text(call.get("durationSec")),
        call["status"],
        call.get("outcome") or call.get("endReason") or "",
    ]


def show_call(call: Json) -> None:
    """Print a call whole: what was said and done in it, and how it ended."""
    numbers = " → ".join(call.get(name) or "?" for name in ("callerPhone", "calledPhone"))
    began = local_time(call["startedTime"], "seconds")
    render.line(
        f"{call['callId']}  {call['agentId']} v{call['agentVersion']}  {began}  {numbers}", "bold"
    )
    show_transcript(call)
    for approval in call.get("approvals", ()):
        code = approval.get("spokenCode")
        render.line(f"proposal {approval.get('approvalId')}{f' ({code})' if code else ''}")
    ended = call.get("endReason") or call["status"]
    length = seconds_text(call.get("durationSec"))
    outcome = call.get("outcome")
    render.line(
        f"{ended}{f' after {length} s' if length else ''}{f'; outcome {outcome}' if outcome else ''}"
    )
    if said := call.get("modelError"):
        render.line(
            f"the model's service says: {ModelRefusal.model_validate(said).sentence()}", "yellow"
        )


def show_transcript(call: Json) -> None:
    """Print what was said, then the tools that ran and the nodes that answers rest on."""
    for entry in call.get("transcript", ()):
        show_said(str(entry.get("role")), str(entry.get("content")), entry)
    for tool in call.get("tools", ()):
        show_tool(tool)
    for source in call.get("sources", ()):
        show_sources(source)


def show_said(role: str, words: str, entry: Json) -> None:
    cut = (
        f"  [interrupted after {entry.get('heardMs', 0) / 1000:.1f} s]"
        if entry.get("interrupted")
        else ""
    )
    render.said(f"{SPEAKERS.get(role, role)}: ", words + cut, STYLES.get(role))


def show_tool(tool: Json) -> None:
    ms = tool.get("ms", tool.get("durationMs"))
    render.line(f"  tool {tool.get('name')}: {'ok' if tool.get('ok') else 'failed'}{took(ms)}")


def took(ms: Any) -> str:
    return "" if ms is None else f", {ms:.0f} ms"


def show_sources(source: Json) -> None:
    nodes = [node_key(node) for node in source.get("nodes", ())]
    more = f" and {len(nodes) - MAX_NODES} more" if len(nodes) > MAX_NODES else ""
    render.line(f"  sources in {source.get('graph')}: {', '.join(nodes[:MAX_NODES])}{more}")


def show_message(message: Json) -> None:
    """Print a message of a call that is followed; words once they are final."""
    match message["type"]:
        case "call:said" if message.get("final"):
            show_said(str(message.get("role")), str(message.get("text")), message)
        case "call:tool" if message.get("phase") == "finished":
            show_tool(message)
        case "call:sources":
            show_sources(message)
        case "call:proposal":
            render.line(f"  proposal {message.get('approvalId')} ({message.get('spokenCode')})")
        case "call:state":
            render.note(f"the call is {message.get('status')}")
        case "call:ended":
            render.line(f"{message.get('reason')}; outcome {message.get('outcome')}")
        case _:
            pass


def show_checked(checked: Sequence[CheckedExpectation]) -> None:
    """Print what was expected, and what there was instead."""
    for one in checked:
        found = "" if one.holds else f" (found: {one.found})"
        render.line(
            f"{'holds' if one.holds else 'MISSING'}: {one.what}{found}",
            None if one.holds else "red",
        )


def show_side_by_side(before: Json, after: Json) -> None:
    """Print two calls beside each other: what was said, which tools ran, how they ended."""
    pairs = [("recorded", "now"), *zip_longest(_summary(before), _summary(after), fillvalue="")]
    for number, pair in enumerate(pairs):
        wrapped = [wrap(text, SIDE) for text in pair]
        for left, right in zip_longest(*wrapped, fillvalue=""):
            render.line(f"{left:<{SIDE}} | {right}".rstrip(), None if number else "bold")


def _summary(call: Json) -> list[str]:
    said = [
        f"{SPEAKERS.get(str(entry.get('role')), '')}: {entry.get('content')}"
        for entry in call.get("transcript", ())
        if entry.get("role") != "system"
    ]
    tools = [
        f"tool {tool.get('name')}: {'ok' if tool.get('ok') else 'failed'}"
        for tool in call.get("tools", ())
    ]
    return [*said, *tools, f"outcome: {call.get('outcome')}"]


def seconds_text(seconds: Any) -> str:
    return "" if seconds is None else f"{seconds:.1f}"
