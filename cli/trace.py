"""The command `trace`: how the answers of a conversation came about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from cli import render
from cli.common import EXIT_NOTHING, Common, argument, command, local_time
from graphrag.app.wiring import Services

FIRST_NODES = 8


@command()
async def trace(
    common: Common,
    services: Services,
    thread_id: Annotated[str, argument("THREAD", "A conversation's id (see `nodius threads list`).")],
) -> None:
    """Show how answers came about: nodes with scores, calls with time, tokens and cost; --json: all of it."""
    await services.threads.get(thread_id, services.local_person())
    turns = await services.traces.of_thread(thread_id)
    if common.as_json:
        render.json({"threadId": thread_id, "turns": turns})
        return
    for turn in turns:
        render.line(f"turn {turn['turn']}  {local_time(turn['time'])}", "bold")
        sizes = [f"{part['role']} {part['chars']:,}" for part in turn["context"]]
        render.line(f"  sent first, in characters: {', '.join(sizes) or 'nothing'}")
        rows = [row for span in turn["spans"] for row in _rows(span)]
        render.table(
            ["what", "ms", "tokens in", "out", "cached", "US dollars"], rows, numbers=[1, 2, 3, 4, 5]
        )
        for span in turn["spans"]:
            for node in span["attributes"].get("nodes", ())[:FIRST_NODES]:
                render.line(f"  {node['score']:>8.4f}  {node['key']}  {' '.join(node['reasons'])}")
    if not turns:
        render.note("Nothing is noted of this conversation: see the setting `trace_days`.")
        raise typer.Exit(EXIT_NOTHING)


def _rows(span: Mapping[str, Any]) -> Iterator[list[Any]]:
    facts = span["attributes"]
    marks = [
        name for name, is_so in (("failed", span.get("failed")), ("cached", facts.get("cached"))) if is_so
    ]
    cost = facts.get("costUsd")
    counts = [facts.get(name, "") for name in ("inputTokens", "outputTokens", "cachedTokens")]
    yield [" ".join([span["name"], *marks]), span["ms"], *counts, "" if cost is None else f"{cost:.4f}"]
