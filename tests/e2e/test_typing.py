"""Single keys act only on a card or on the canvas: what is typed into a field stays a text."""

from __future__ import annotations

import string
from collections.abc import Generator
from contextlib import contextmanager, nullcontext

import pytest
from playwright.sync_api import Page, Request, expect

from tests.e2e.canvas_scenes import SCENES
from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.scenes import Scene
from tests.e2e.site import Site
from tests.e2e.talk import CHANGE, RENAME, node, proposes, row
from tests.e2e.test_accessible import EXPECTED
from tests.e2e.test_review import proposed
from tests.support.scripted_provider import ScriptedProvider

SENTENCE = "Jack, can you undo a fix or keep it next? 0+1"
"""Has every letter that is a key somewhere."""
TEXT_FIELDS = "textarea, [contenteditable=true], input" + "".join(
    f":not([type={kind}])" for kind in ("checkbox", "radio", "range", "file")
)
NEXT_FIELD = """(fields) => {
  const box = document.querySelector('dialog:modal') ?? document;
  const left = [...box.querySelectorAll(fields)].filter((e) =>
    !e.typed && !e.disabled && !e.readOnly && e.checkVisibility());
  // Text first: after a field of times Chromium keeps the keyboard.
  const next = left.find((e) => e.type === "text") ?? left[0];
  if (next) next.typed = true;
  next?.focus();
  next?.select?.();
  return next;
}"""
"""Puts the focus on a field of the page that nothing was typed into yet, all of
its text selected.
"""
NO_LETTERS = ("number", "date", "time", "datetime-local")
"""Kinds of fields that refuse letters by themselves."""


READS = ("/api/schedules/preview", "/meanings", "/auth/token")
"""Requests that change nothing although they are sent with POST; the last asks for a session,
whenever a request of the page is refused.
"""


@contextmanager
def nothing_happens(page: Page) -> Generator[None]:
    """Checks that inside the block nothing is sent, opened, added or deleted."""
    sent: list[str] = []

    def note(request: Request) -> None:
        if request.method != "GET":
            sent.append(f"{request.method} {request.url}")

    before = page.locator(".node").count()
    page.on("request", note)
    yield
    page.remove_listener("request", note)
    assert [one for one in sent if not any(read in one for read in READS)] == []
    assert page.locator(".node").count() == before


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_sentence_typed_into_any_field_of_the_page_stays_a_sentence(
    scene: Scene, site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    page = scene(open_page, site, script, "light")
    while (field := page.evaluate_handle(NEXT_FIELD, TEXT_FIELDS).as_element()) is not None:
        with nothing_happens(page):
            page.keyboard.type(SENTENCE)
            assert field.evaluate("e => e === document.activeElement"), field.evaluate(
                "e => e.outerHTML"
            )
            if field.get_attribute("type") not in NO_LETTERS:
                longest = field.evaluate("e => e.maxLength > 0 ? e.maxLength : 1000")
                assert field.evaluate("e => e.value ?? e.textContent") == SENTENCE[:longest]
    page.wait_for_load_state("networkidle")
    trouble.forgive(*EXPECTED.get(scene.__name__, ()), "422")  # a zone that does not exist


def begins(page: Page, place: str) -> None:
    """Put the focus on a row, a card or a node that letters act on."""
    places = {"row": page.locator(".review-row").first, "card": page.locator("#panel-review .card")}
    places.get(place, node(page, "fetch-api")).focus()


IS_IN_A_FIELD = "() => document.activeElement.matches('input, textarea')"


@pytest.mark.parametrize(("place", "keys"), [("row", "cer"), ("card", "cer"), ("canvas", "acn")])
def test_what_is_typed_at_once_after_a_key_that_opens_a_field_stands_in_that_field(
    place: str,
    keys: str,
    site: Site,
    script: ScriptedProvider,
    open_page: OpenPage,
    trouble: Trouble,
) -> None:
    """Every letter is tried; after those that open a field a sentence is typed without
    waiting for it.
    """
    script.play(proposes(CHANGE, RENAME))
    proposed(site)
    page = open_page(site, panel="review")
    page.route("**/decision", lambda route: route.abort())
    for key in string.ascii_lowercase:
        page.reload()
        page.wait_for_selector("main[data-state=ready]")
        expect(row(page, "pending")).to_have_count(2)
        begins(page, place)
        with nothing_happens(page) if key in keys else nullcontext():
            page.keyboard.press(key)
            if key in keys:
                page.keyboard.type(SENTENCE)
                page.wait_for_function(IS_IN_A_FIELD)
                page.wait_for_function(
                    "text => document.activeElement.value.endsWith(text)", arg=SENTENCE
                )
        assert page.evaluate(IS_IN_A_FIELD) == (key in keys), key
    trouble.forgive("ERR_FAILED")
