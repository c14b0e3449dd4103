"""The `usage` command: what conversations used, and where the month's limits stand."""

from __future__ import annotations

from cli import render
from cli.common import Common, command
from graphrag.app.usage_report import usage_report
from graphrag.app.wiring import LOCAL_USER, Services


@command()
async def usage(common: Common, services: Services) -> None:
    """Show the tokens and the known cost of your conversations, and the limits of this month (UTC)."""
    found = await usage_report([(services, services.local_person())])
    if common.as_json:
        render.json(found.model_dump(by_alias=True))
        return
    rows = [
        [m.provider, m.model, m.threads, f"{m.prompt_tokens:,}", f"{m.completion_tokens:,}", f"{m.cost:.4f}"]
        for m in found.models
    ]
    columns = ["provider", "model", "conversations", "prompt tokens", "answer tokens", "US dollars"]
    render.table(columns, rows, numbers=[2, 3, 4, 5])
    if any(used.user_id != LOCAL_USER for used in found.people):
        people = [[p.user_id, p.threads, f"{p.total_tokens:,}", f"{p.cost:.4f}"] for p in found.people]
        render.table(["person", "conversations", "tokens", "US dollars"], people, numbers=[1, 2, 3])
    for limit in found.limits:
        tokens = f" of {limit.max_tokens:,}" if limit.max_tokens is not None else ""
        cost = f" of {limit.max_cost:.4f}" if limit.max_cost is not None else ""
        render.line(
            f"this month, {limit.whose}: {limit.used_tokens:,}{tokens} tokens, "
            f"{limit.used_cost:.4f}{cost} US dollars"
        )
