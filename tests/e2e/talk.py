"""What tests of the conversation do and look for on the page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.e2e.site import Site
from tests.support.scripted_provider import Says, call

CHANGE = {
    "node_key": "error-handler",
    "changes": {"data.level": "warning"},
    "reason": "it was asked for",
}
RENAME = {
    "node_key": "fetch-api",
    "changes": {"data.name": "Get the players"},
    "reason": "a better name",
}
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>"><svg onload=alert(3)>'

IS_SEEN = """([found, box]) => {
  const stage = document.querySelector(box).getBoundingClientRect();
  const { left, top, right, bottom } = found.getBoundingClientRect();
  return left >= stage.left && top >= stage.top && right <= stage.right && bottom <= stage.bottom;
}"""


def proposes(*arguments: dict[str, Any], text: str = "I propose this.") -> Says:
    """A step in which the model proposes changes of nodes."""
    return Says(text=text, calls=[call("propose_update_node", given) for given in arguments])


def ask(page: Page, text: str) -> None:
    """Send a message as a person does."""
    page.locator("#composer").fill(text)
    page.locator("#composer").press("Enter")


def answered(page: Page, text: str) -> Locator:
    """Wait until the last turn has ended and says this; return the turn."""
    turn = page.locator(".turn.is-assistant").last
    expect(turn).to_contain_text(text)
    expect(turn).not_to_have_attribute("aria-busy", "true")
    return turn


def card(page: Page, state: str, panel: str = "chat") -> Locator:
    """The cards of a panel that are in a state."""
    return page.locator(f"#panel-{panel} .card.is-{state}")


def press(within: Locator | Page, name: str) -> None:
    within.get_by_role("button", name=name, exact=True).click()


def press_more(within: Locator, name: str) -> None:
    """Press a button that stands behind the "…" of a card."""
    within.locator(".card-foot .more-menu > summary").click()
    press(within.locator(".more-menu[open]"), name)


def row(page: Page, state: str) -> Locator:
    """The rows of the review panel that are in a state."""
    return page.locator(f".review-row.is-{state}")


def node(page: Page, key: str) -> Locator:
    return page.locator(f'.node[data-key="{key}"]')


def texts(locator: Locator) -> Sequence[str]:
    return [text.strip() for text in locator.all_inner_texts()]


def seen(found: Locator) -> None:
    """Wait until something stands whole within the canvas."""
    found.page.wait_for_function(IS_SEEN, arg=[found.element_handle(), ".stage"])


def release(site: Site, held: asyncio.Event) -> None:
    async def let_go() -> None:
        held.set()

    site.run(let_go)
