"""What an answer rests on, seen on the canvas."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.support.scripted_provider import Says, ScriptedProvider


def test_what_an_answer_rests_on_lights_up_and_what_lies_behind_leaves_the_rest_dimmed(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(
        Says(text="It fetches: {{node:fetch-api}}."),
        Says(text="{{node:fetch-api}} fails: {{highlight:error-handler}}."),
    )
    page = open_page(site)
    lit, dimmed = page.locator(".node.lit"), page.locator(".node.dimmed")
    ask = page.get_by_placeholder("Ask, or say what to change")
    ask.fill("What fetches?")
    ask.press("Enter")
    expect(lit).to_have_attribute("data-key", "fetch-api")
    expect(dimmed).to_have_count(0)
    ask.fill("And if it fails?")
    ask.press("Enter")
    expect(lit).to_have_count(2)
    expect(dimmed).to_have_count(5)
    expect(page.locator(".edge.path")).to_have_attribute("data-key", "edge-fetch-error")
    page.reload()  # also of an answer that is stored
    expect(dimmed).to_have_count(5)
    page.locator(".stage").focus()
    page.keyboard.press("Escape")
    expect(page.locator(".node.lit, .node.dimmed, .edge.path")).to_have_count(0)
