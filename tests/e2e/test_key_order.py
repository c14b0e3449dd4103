"""Keys that are pressed faster than the server answers do what they do at rest."""

from __future__ import annotations

import random
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import CHANGE, row
from tests.e2e.test_review import proposed
from tests.support.scripted_provider import Says, ScriptedProvider, call

PROPOSALS = 5
KEYS: tuple[str, ...] = ("a", "a", "u", "j", "r", "Enter", "k")
SEQUENCES = 6
MOST_MS = 250
"""A decision's answer comes at most so much later than the server gave it."""

LATE_ANSWERS = """
  window.delays = [];
  window.underWay = 0;
  const send = window.fetch;
  window.fetch = async (...of) => {
    if (!/decision|undo/.test(String(of[0]?.url ?? of[0]))) return send(...of);
    window.underWay += 1;
    try {
      const answer = await send(...of);
      await new Promise((resolve) => setTimeout(resolve, window.delays.shift() ?? 0));
      return answer;
    } finally {
      window.underWay -= 1;
    }
  };
"""
REST = """async () => {
  for (let quiet = 0; quiet < 8;) {
    await new Promise((resolve) => setTimeout(resolve));
    quiet = window.underWay || document.querySelector("#panel-review [aria-busy=true]") ? 0 : quiet + 1;
  }
}"""
"""Resolves when nothing is on its way, and nothing follows from what came."""


def propose_all(site: Site, script: ScriptedProvider, graph: str) -> None:
    """Import a graph with changes of so many fields proposed in it."""
    site.import_graph(key=graph)
    changes = [{**CHANGE, "changes": {f"data.field{i}": i}} for i in range(PROPOSALS)]
    script.play(Says(text="These.", calls=[call("propose_update_node", one) for one in changes]))
    proposed(site, graph=graph)


def outcome(page: Page, site: Site, graph: str) -> dict[str, Any]:
    """What the keys came to: what the server stored, what was typed, and where the focus is."""
    page.evaluate(REST)
    stored = site.rest("GET", f"/api/approvals?graphKey={graph}&limit=100")["approvals"]
    typed = "document.activeElement.value ?? null"
    place = "document.activeElement.closest('.card, .review-row')"
    return {
        "stored": sorted(
            (one["title"], one["status"], bool(one.get("undoneBy")), bool(one.get("undoes")))
            for one in stored
        ),
        "typed": page.evaluate(typed),
        "focus": page.evaluate(f"{place}?.querySelector('h3, .row-title').textContent ?? null"),
    }


def pressed(
    page: Page, site: Site, graph: str, keys: list[str], delays: list[int] | None
) -> dict[str, Any]:
    """Press keys on the first card of a graph: one after the other at rest, or at once
    with late answers.
    """
    page.goto("about:blank")
    page.goto(f"{site.url}#graph={graph}&sheet=0&panel=review")
    expect(row(page, "pending")).to_have_count(PROPOSALS)
    row(page, "pending").first.focus()
    page.evaluate("delays => { window.delays = delays; }", delays or [])
    for key in keys:
        page.keyboard.press(key)
        if delays is None:
            page.evaluate(REST)
    return outcome(page, site, graph)


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_keys_at_any_pace_end_as_at_rest(
    seed: int, site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    chance = random.Random(seed)
    fixed: dict[int, list[str]] = {0: ["a", "u"], 1: ["a", "a", "u"]}
    keys = fixed.get(seed) or chance.choices(KEYS, k=7)
    for graph in ("slow", "fast"):
        propose_all(site, script, graph)
    page = open_page(site)
    page.context.add_init_script(LATE_ANSWERS)
    at_rest = pressed(page, site, "slow", keys, None)
    at_once = pressed(page, site, "fast", keys, [chance.randrange(MOST_MS) for _ in keys])
    assert at_once == at_rest, keys
