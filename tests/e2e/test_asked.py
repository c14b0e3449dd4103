"""Questions of the model on the page: answered with keys or the mouse, after a reload,
from another tab.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect

from mock_data import load_text
from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import CHANGE, HOSTILE, answered, ask, card, node, press, press_more, proposes
from tests.support.scripted_provider import Says, ScriptedProvider, call

WORDS = {"en-US": ("Yes", "No", "Another answer"), "fr-FR": ("Oui", "Non", "Une autre réponse")}


def asks(kind: str, **data: object) -> Says:
    return Says(text="One thing.", calls=[call("ask_person", {"type": kind, "data": data})])


def test_a_choice_is_answered_with_the_keyboard_and_its_text_is_only_text(
    page: Page, script: ScriptedProvider
) -> None:
    options = [HOSTILE[:200], "Date"]
    script.play(
        asks("MultipleChoice", question=f"Which? {HOSTILE}", options=options), "Date it is."
    )
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
    page: Page, script: ScriptedProvider
) -> None:
    first, second = (
        asks("MultipleChoice", question="Which?", options=["a", "b"], other=True) for _ in "12"
    )
    script.play(first, "Both it is.", second, "Never mind.", '{"type": "question", "card": {}}')
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


CARET = "field => [field.selectionStart, field.selectionEnd]"
HALF = "Half a na"


def write(field: Locator, text: str = HALF) -> None:
    """Type over what is in a field, and put the caret into the middle of it."""
    field.fill(text)
    field.evaluate("field => field.setSelectionRange(2, 4)")


def untouched(field: Locator, text: str = HALF) -> None:
    """The text, the caret and the focus are as `write` left them."""
    expect(field).to_have_value(text)
    expect(field).to_be_focused()
    assert field.evaluate(CARET) == [2, 4]


def move(page: Page, key: str) -> None:
    """Move a node as another person does."""
    node(page, key).click()
    page.keyboard.press("ArrowRight")


def moved(page: Page, site: Site, before: float, key: str = "root") -> None:
    """Wait until a page shows that a node was moved, drawn again."""
    page.wait_for_function(
        "([one, x]) => new DOMMatrix(document.querySelector(one).style.transform).e > x",
        arg=[f".node[data-key='{key}']", before],
    )
    assert site.node(key)["posX"] > before


def rename(page: Page, key: str, name: str) -> None:
    """Rename a node as another person does."""
    node(page, key).dblclick()
    field = page.get_by_label("Name of the node")
    field.fill(name)
    field.press("Enter")
    expect(node(page, key)).to_contain_text(name)


def inspected(page: Page, key: str = "root") -> Locator:
    node(page, key).dblclick()
    return page.get_by_label("Name of the node")


def test_a_half_typed_name_is_not_stored_when_somebody_else_moves_the_node(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    before = offline_site.node("root")
    name = inspected(one)
    write(name)
    move(two, "root")
    moved(one, offline_site, before["posX"])
    expect(one.locator(".inspector dl")).to_contain_text(str(before["posX"] + 10))
    untouched(name)
    assert offline_site.node("root")["data"] == before["data"]
    name.press("Enter")
    expect(node(two, "root")).to_contain_text(HALF)
    assert offline_site.node("root")["data"] == {**before["data"], "name": HALF}


def test_a_name_that_somebody_else_changed_is_said_and_not_overwritten_by_leaving_the_field(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    name = inspected(one)
    write(name)
    rename(two, "root", "Theirs")
    hint = one.locator(".inspector .stale")
    expect(hint).to_contain_text("“Theirs”")
    untouched(name)
    one.locator(".inspector").click(position={"x": 5, "y": 5})
    expect(name).not_to_be_focused()
    expect(name).to_have_value(HALF)
    expect(node(one, "root")).to_contain_text("Theirs")
    name.press("Escape")
    expect(name).to_have_value("Theirs")
    expect(hint).to_be_hidden()
    assert offline_site.node("root")["data"]["name"] == "Theirs"
    write(name, "Mine")
    rename(two, "root", "Theirs again")
    expect(hint).to_contain_text("“Theirs again”")
    name.press("Enter")
    expect(node(two, "root")).to_contain_text("Mine")


def test_leaving_a_name_saves_it_and_escape_takes_it_back(page: Page, offline_site: Site) -> None:
    before = offline_site.node("root")["data"]
    name = inspected(page)
    name.fill("Never")
    name.press("Escape")
    expect(name).to_have_value(before["name"])
    name.fill("Left")
    node(page, "fetch-api").click()
    expect(node(page, "root")).to_contain_text("Left")
    assert offline_site.node("root")["data"] == {**before, "name": "Left"}


def test_what_was_typed_for_a_node_that_is_gone_is_not_stored(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    name = inspected(one, "error-handler")
    write(name)
    node(two, "error-handler").click()
    two.keyboard.press("Delete")
    expect(one.get_by_text("was deleted meanwhile")).to_be_visible()
    expect(one.locator(".inspector")).to_be_hidden()
    edits = offline_site.rest("GET", "/api/graphs/testgraph001/history")["edits"]
    assert {step["type"] for edit in edits for step in edit["steps"]} == {
        "edgeDelete",
        "nodeDelete",
    }


def test_the_focus_stays_on_a_sheets_tab_while_others_edit(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    before = offline_site.node("root")["posX"]
    tab = one.get_by_role("tab", name="main")
    tab.focus()
    move(two, "root")
    moved(one, offline_site, before)
    expect(tab).to_be_focused()
    one.keyboard.press("ArrowRight")
    after = one.locator(".sheet[aria-selected=true]")
    expect(after).to_be_focused()
    expect(after).not_to_have_attribute("data-sheet", "0")


@pytest.mark.parametrize("field", ["data", "process"])
def test_data_and_code_that_are_being_written_stay_and_a_change_of_them_is_said(
    offline_site: Site, open_page: OpenPage, field: str
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    before = offline_site.node("root")["posX"]
    inspected(one)
    part = one.locator(".inspector section").filter(
        has=one.get_by_role("heading", name="Data" if field == "data" else "Code", exact=True)
    )
    press(part, "Edit")
    area = part.locator("textarea")
    write(area)
    move(two, "root")
    moved(one, offline_site, before)
    untouched(area)
    expect(part.locator(".stale")).to_be_hidden()
    if field == "data":
        rename(two, "root", "Theirs")
        expect(part.locator(".stale")).to_be_visible()
        untouched(area)


def _composer(page: Page) -> Locator:
    return page.locator("#composer")


def _inspector(page: Page) -> Locator:
    return inspected(page, "fetch-api")


def _finder(page: Page) -> Locator:
    page.locator(".stage").press("Control+f")
    return page.get_by_role("searchbox", name="Name, type, data or code")


@pytest.mark.parametrize("field", [_composer, _inspector, _finder])
def test_a_text_field_stays_as_it_is_while_others_edit(
    offline_site: Site, open_page: OpenPage, field: Callable[[Page], Locator]
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    before = offline_site.node("root")["posX"]
    written = field(one)
    write(written)
    move(two, "root")
    moved(one, offline_site, before)
    untouched(written)


def test_the_search_for_a_graph_stays_as_it_is_when_the_list_is_read_again(
    offline_site: Site, open_page: OpenPage
) -> None:
    for number in range(6):
        document = json.loads(load_text("nba.json"))
        document["graph"]["name"] = f"Half a name {number}"
        offline_site.import_graph(document, key=f"other{number}")
    page = open_page(offline_site, None)
    field = page.get_by_role("searchbox", name="Find a graph")
    write(field)
    expect(page.locator(".graph-card")).to_have_count(6)
    more = FilePayload(
        name="more.json", mimeType="application/json", buffer=load_text("nba.json").encode()
    )
    with page.expect_file_chooser() as chooser:
        page.evaluate("() => [...document.querySelectorAll('.home-tools button')].at(-1).click()")
    with page.expect_response("**/api/graphs"):
        chooser.value.set_files([more, more])
    expect(
        page.get_by_text("more.json: imported").or_(page.get_by_text("more.json:"))
    ).to_be_visible()
    untouched(field)


def test_an_edited_proposal_stays_as_it_is_while_others_edit_and_propose(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes(CHANGE), proposes(CHANGE))
    one = open_page(site)
    two = open_page(site)
    before = site.node("root")["posX"]
    ask(one, "Change it")
    waiting = card(one, "pending")
    press_more(waiting, "Edit…")
    field = waiting.locator("form input[type=text], form textarea").first
    write(field)
    move(two, "root")
    moved(one, site, before)
    ask(two, "Change it")
    expect(card(two, "pending")).to_be_visible()
    untouched(field)
    one.get_by_label("Langue : français").evaluate("button => button.click()")
    expect(one.locator("#composer")).to_have_attribute(
        "placeholder", "Une question, ou un changement"
    )
    expect(field).to_have_value(HALF)
