"""Questions of the model on the page: answered with keys or the mouse, after a reload, from another tab."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import HOSTILE, answered, ask, press
from tests.support.scripted_provider import Says, ScriptedProvider, call

WORDS = {"en-US": ("Yes", "No", "Another answer"), "fr-FR": ("Oui", "Non", "Une autre réponse")}


def asks(kind: str, **data: object) -> Says:
    return Says(text="One thing.", calls=[call("ask_person", {"type": kind, "data": data})])


def test_a_choice_is_answered_with_the_keyboard_and_its_text_is_only_text(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    options = [HOSTILE[:200], "Date"]
    script.play(asks("MultipleChoice", question=f"Which? {HOSTILE}", options=options), "Date it is.")
    page = open_page(site)
    ask(page, "tidy up")
    shown = page.locator(".turn.is-assistant .asked")
    expect(shown).to_contain_text(HOSTILE)
    expect(shown.locator("img, script, svg")).to_have_count(0)
    first = shown.get_by_role("button").first
    first.focus()
    first.press("ArrowRight")
    page.keyboard.press("Enter")
    answered(page, "Date it is.")
    expect(shown).to_have_count(0)


@pytest.mark.parametrize("locale", list(WORDS))
def test_after_a_reload_and_in_another_tab_the_question_is_there_and_one_answer_counts(
    site: Site, script: ScriptedProvider, open_page: OpenPage, locale: str
) -> None:
    yes, no, _ = WORDS[locale]
    script.play(asks("Validation", message="All of them?"), "None, then.")
    page = open_page(site, locale=locale)
    ask(page, "tidy up")
    expect(page.locator(".asked")).to_contain_text("All of them?")
    page.reload()
    expect(page.locator(".asked").get_by_role("button", name=yes)).to_be_visible()
    press(page.locator(".asked"), no)
    answered(page, "None, then.")
    page.reload()
    answered(page, "None, then.")
    expect(page.locator(".asked")).to_have_count(0)


def test_an_own_answer_is_written_and_a_message_in_its_place_closes_a_question(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    first, second = (asks("MultipleChoice", question="Which?", options=["a", "b"], other=True) for _ in "12")
    script.play(first, "Both it is.", second, "Never mind.", '{"type": "question", "card": {}}')
    page = open_page(site)
    ask(page, "tidy up")
    own = page.get_by_label(WORDS["en-US"][2])
    own.fill("both")
    own.press("Enter")
    answered(page, "Both it is.")
    ask(page, "again")
    expect(page.locator(".asked")).to_be_visible()
    ask(page, "forget it")
    answered(page, "Never mind.")
    expect(page.locator(".asked")).to_have_count(0)
    ask(page, "say something odd")
    answered(page, "question")
    expect(page.locator(".asked")).to_have_count(0)
