"""How the commands `automations …` print the rules for all automations of a workspace."""

from __future__ import annotations

from cli import render
from cli.common import local_time
from cli.output import Output
from graphrag.automations.automation_store import Automations
from graphrag.automations.workspace_rules import WorkspaceRules, used_today


async def rules_output(automations: Automations, rules: WorkspaceRules) -> Output:
    """Returns the pause and the budget of a workspace, with what was used today."""
    used = await used_today(automations)
    document = {
        **rules.model_dump(by_alias=True, exclude_none=True),
        "used": used.model_dump(by_alias=True, exclude_none=True),
    }

    def show() -> None:
        show_pause(rules)
        budget, cost = rules.budget, used.cost_usd
        spent = "unknown" if cost is None else f"{cost:.4f}"
        render.line(
            f"Today: {used.tokens} of {budget.day_tokens or 'unlimited'} tokens, "
            f"{spent} of {budget.day_cost_usd or 'unlimited'} US dollars"
        )

    return Output(document=document, text=show)


def show_pause(rules: WorkspaceRules) -> None:
    """Prints who paused all automations, and why."""
    if rules.paused is not None:
        paused = rules.paused
        why = f": {paused.reason}" if paused.reason else ""
        render.line(f"All paused by {paused.by} since {local_time(paused.time)}{why}", "bold")
