"""Live editing on the canvas: what one does, others and the assistant see at once; and it
can be undone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mock_data import load_text
from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import GRAPH, Site, running_site
from tests.e2e.test_canvas import box, node
from tests.support.service import SECRET, token


def drag(page: Page, key: str, dx: int, dy: int) -> None:
    """Move a node by the mouse. Units: canvas points, whatever the zoom."""
    at = box(node(page, key))
    k = at["width"] / page.evaluate(
        "(key) => document.querySelector(`.node[data-key='${key}']`).offsetWidth", key
    )
    x = at["x"] + at["width"] / 2
    y = at["y"] + at["height"] * 0.8
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx * k / 2, y + dy * k / 2, steps=3)
    page.mouse.move(x + dx * k, y + dy * k, steps=3)
    page.mouse.up()


def test_a_dragged_node_is_moved_for_the_other_window_and_for_the_service(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    at_two = box(node(two, "error-handler"))
    before = offline_site.node("error-handler")
    drag(one, "error-handler", 100, 60)
    expect(one.locator(".node.dragged")).to_have_count(0)
    two.wait_for_selector(".save-mark.unsaved")
    after = offline_site.node("error-handler")
    assert (after["posX"] - before["posX"], after["posY"] - before["posY"]) == (100, 60)
    moved = box(node(two, "error-handler"))
    assert moved["x"] > at_two["x"] + 20
    one.keyboard.press("Control+z")
    expect(one.get_by_text("Undone: moved Log fetch error")).to_be_visible()
    assert offline_site.node("error-handler")["posX"] == before["posX"]
    assert box(node(two, "error-handler")) == at_two
    one.keyboard.press("Control+Shift+z")
    expect(one.get_by_text("Done again: moved Log fetch error")).to_be_visible()
    assert offline_site.node("error-handler")["posX"] == after["posX"]


def test_the_assistant_finds_a_name_that_was_just_written(page: Page, offline_site: Site) -> None:
    node(page, "error-handler").dblclick()
    name = page.get_by_label("Name of the node")
    name.fill("Zanzibar notifier")
    name.press("Enter")
    expect(node(page, "error-handler")).to_contain_text("Zanzibar notifier")
    services = offline_site.run(lambda: offline_site.state.services("default"))
    found = offline_site.run(lambda: services.retriever.retrieve(GRAPH, "zanzibar"))
    assert found.nodes[0].node.key == "error-handler"
    assert offline_site.node("error-handler")["data"]["level"] == "error"


def test_arrow_keys_move_what_is_selected_as_one_edit(page: Page, offline_site: Site) -> None:
    before = offline_site.node("root")
    node(page, "root").click()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowDown"):
        page.keyboard.press(key)
    page.wait_for_selector(".save-mark.unsaved")
    after = offline_site.node("root")
    assert (after["posX"] - before["posX"], after["posY"] - before["posY"]) == (20, 50)
    assert len(offline_site.rest("GET", f"/api/graphs/{GRAPH}/history")["edits"]) == 1


def test_a_deleted_node_comes_back_with_its_edges(page: Page) -> None:
    edges = page.locator("path.edge")
    count = edges.count()
    node(page, "filter-active").click()
    page.keyboard.press("Delete")
    expect(node(page, "filter-active")).to_have_count(0)
    expect(edges).to_have_count(count - 2)
    page.locator(".toast").get_by_role("button", name="Undo your edit").click()
    expect(node(page, "filter-active")).to_be_visible()
    expect(edges).to_have_count(count)


def test_a_node_that_somebody_deletes_while_it_is_dragged_or_moved_by_keys_is_told(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    told = "was deleted in the meantime, so it was not moved or connected."

    def delete(key: str) -> None:
        node(two, key).click()
        two.keyboard.press("Delete")
        expect(node(one, key)).to_have_count(0)

    node(one, "error-handler").click()
    node(one, "filter-active").click(modifiers=["Shift"])
    before = offline_site.node("filter-active")["posX"]
    at = box(node(one, "error-handler"))
    one.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] * 0.8)
    one.mouse.down()
    one.mouse.move(at["x"] + at["width"] / 2 + 60, at["y"] + at["height"] * 0.8, steps=3)
    delete("error-handler")
    expect(one.get_by_text(f"Log fetch error {told}")).to_be_visible()
    one.mouse.move(at["x"] + at["width"] / 2 + 80, at["y"] + at["height"] * 0.8, steps=3)
    one.mouse.up()
    expect(one.locator(".node.dragged")).to_have_count(0)
    expect(one.locator(".save-mark.unsaved")).to_be_attached()
    assert offline_site.node("filter-active")["posX"] > before
    name = node(one, "root").locator(".node-name").inner_text()
    node(one, "root").click()
    one.clock.install()
    one.keyboard.press("ArrowRight")
    delete("root")
    one.clock.run_for(1_000)
    expect(one.get_by_text(f"{name} {told}")).to_be_visible()


def test_handles_are_connected_by_dragging(page: Page) -> None:
    page.get_by_label("Zoom in").click()
    page.wait_for_selector(".stage:not(.coarse)")  # from further away handles are not shown
    count = page.locator("path.edge").count()
    start = box(node(page, "fetch-api").locator(".handle.out").last)
    end = box(node(page, "filter-active").locator(".handle.in"))
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(end["x"] - 20, end["y"] + 5, steps=4)
    page.mouse.move(end["x"] + 5, end["y"] + 5, steps=2)
    page.mouse.up()
    expect(page.locator("path.edge")).to_have_count(count + 1)


def test_an_edit_is_taken_back_from_the_list_of_edits(page: Page, offline_site: Site) -> None:
    before = offline_site.node("root")
    drag(page, "root", 40, 40)
    page.wait_for_selector(".save-mark.unsaved")
    page.get_by_role("tab", name="Review").click()
    page.get_by_role("button", name="History").click()
    moved = page.locator(".history-edit", has_text="moved Start").first
    moved.get_by_role("button", name="Undo", exact=True).click()
    expect(page.locator(".history-edit", has_text="↶")).to_be_visible()
    assert offline_site.node("root")["posX"] == before["posX"]


def test_sheets_are_added_renamed_and_deleted_for_everybody(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    one.get_by_label("Add a sheet").click()
    one.get_by_label("Name of the sheet").fill("Extra")
    one.get_by_role("button", name="OK").click()
    expect(one.get_by_role("tab", name="Extra")).to_have_attribute("aria-selected", "true")
    expect(one.get_by_text("This sheet is empty")).to_be_visible()
    expect(two.get_by_role("tab", name="Extra")).to_be_visible()
    one.get_by_label("Delete the sheet").click()
    one.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(two.get_by_role("tab", name="Extra")).to_have_count(0)
    expect(one.locator(".node")).to_have_count(7)


def test_what_was_missed_on_another_sheet_is_there_when_it_is_shown(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site, sheet="1")
    drag(one, "error-handler", 0, 100)
    one.wait_for_selector(".save-mark.unsaved")
    two.get_by_role("tab", name="main").click()
    two.get_by_role("button", name="Log fetch error, Logger").dblclick()
    wanted = offline_site.node("error-handler")
    expect(two.locator(".inspector")).to_contain_text(f"{wanted['posX']}, {wanted['posY']}")


def test_a_lost_connection_is_said_and_comes_back_with_what_was_missed(
    tmp_path: Path, open_page: OpenPage, trouble: Trouble
) -> None:
    with running_site(tmp_path) as site:
        page = open_page(site)
        site.stop()
        expect(page.locator(".lost")).to_be_visible()
        drag(page, "root", 40, 0)
        expect(
            page.get_by_text("There is no connection: nothing can be edited now.")
        ).to_be_visible()
        page.locator(".lost").get_by_role("button", name="Connect now").click()
        expect(page.locator(".lost")).to_be_visible()
        site.start()
        document = json.loads(load_text("nba.json"))
        document["nodes"][0]["data"]["name"] = "Renamed meanwhile"
        site.import_graph(document)
        page.evaluate("() => dispatchEvent(new Event('online'))")  # as when the network comes back
        expect(page.locator(".connection.open")).to_be_attached()
        expect(page.locator(".lost")).to_be_hidden()
        expect(node(page, "root")).to_contain_text("Renamed meanwhile")
        drag(page, "root", 40, 0)
        page.wait_for_selector(".save-mark.unsaved")
        page.context.close()  # before the site stops again
        trouble.forgive("WebSocket", "ERR_CONNECTION")


def test_who_is_there_too_is_shown(offline_site: Site, open_page: OpenPage) -> None:
    open_page(offline_site)
    two = open_page(offline_site)
    expect(two.get_by_label("Also here: you ×2")).to_be_visible()


def test_a_viewer_looks_and_reads_why_nothing_moves(
    tmp_path: Path, open_page: OpenPage, trouble: Trouble
) -> None:
    with running_site(tmp_path, graph=False, auth_secret=SECRET) as site:
        site.import_graph(token=token("ed", "editor"))
        page = open_page(site, None)
        dialog = page.get_by_role("dialog", name="Sign in")
        dialog.get_by_label("Access token").fill("nonsense")
        dialog.get_by_role("button", name="Sign in").click()
        dialog = page.get_by_role("dialog", name="Sign in")
        expect(dialog).to_be_visible()
        dialog.get_by_label("Access token").fill(token("vera", "viewer"))
        dialog.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="NBA Stats Pipeline").first.click()
        expect(page.locator(".node")).to_have_count(7)
        drag(page, "root", 60, 0)
        expect(page.get_by_text("You can view this graph, but not edit it.")).to_be_visible()
        assert page.get_by_label("Add a sheet").count() == 0
        page.context.close()
        trouble.forgive("401")


KEEP_SOCKETS = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
  constructor(...given) { super(...given); window.sockets.push(this); }
};
"""
EXPIRE = """(reason) => {
  const message = { type: "authResult", success: false, error: reason };
  window.sockets.at(-1).onmessage({ data: JSON.stringify(message) });
}"""


def test_when_the_token_expires_a_new_one_goes_on_where_one_was(
    tmp_path: Path, open_page: OpenPage, trouble: Trouble
) -> None:
    with running_site(tmp_path, graph=False, auth_secret=SECRET) as site:
        site.import_graph(token=token("ed", "editor"))
        page = open_page(site, None)
        page.add_init_script(KEEP_SOCKETS)
        page.reload()
        dialog = page.get_by_role("dialog", name="Sign in")
        dialog.get_by_label("Access token").fill(token("ed", "editor"))
        dialog.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="NBA Stats Pipeline").first.click()
        page.wait_for_selector(".connection.open", state="attached")
        page.locator("#composer").fill("half a question")
        page.evaluate(EXPIRE, "The token has expired.")
        expect(dialog).to_contain_text("The token has expired.")
        dialog.get_by_label("Access token").fill(token("ed", "editor"))
        dialog.get_by_role("button", name="Sign in").click()
        expect(dialog).to_be_hidden()
        page.wait_for_function(
            "() => window.sockets.length > 1 && window.sockets.at(-1).readyState === 1"
        )
        page.wait_for_selector(".save-mark.saved")
        expect(page.locator("#composer")).to_have_value("half a question")
        drag(page, "root", 40, 0)
        page.wait_for_selector(".save-mark.unsaved")
        page.context.close()
        trouble.forgive("401")


def test_own_edits_are_undone_after_a_reload_and_a_deleted_sheet_comes_back_for_everybody(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site, sheet="1")
    other = open_page(offline_site)
    tab, other_tab = (at.locator(".sheet[data-sheet='1']") for at in (page, other))
    count = other_tab.locator(".sheet-count").text_content() or ""
    before = offline_site.node("root")
    drag(other, "root", 60, 40)
    other.wait_for_selector(".save-mark.unsaved")
    page.get_by_role("button", name="Delete the sheet").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tab).to_have_count(0)
    expect(other_tab).to_have_count(0)
    page.reload()
    page.wait_for_selector(".node")
    page.locator(".stage").focus()
    page.keyboard.press("Control+z")
    expect(tab.locator(".sheet-count")).to_have_text(count)
    expect(other_tab.locator(".sheet-count")).to_have_text(count)
    page.keyboard.press("Control+z")
    expect(page.get_by_text("Undone: moved ")).to_be_visible()
    assert offline_site.node("root")["posX"] == before["posX"]


def test_where_the_others_point_and_what_they_selected_is_seen_and_goes_with_them(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site, viewport={"width": 1000, "height": 700})
    node(two, "fetch-api").click()
    expect(one.locator(".other-name")).to_have_text("you")
    frame = one.locator(".other-frame")
    expect(frame).to_have_count(1)
    shown = box(frame)
    meant = box(node(one, "fetch-api"))
    assert (shown["x"], shown["width"]) == pytest.approx((meant["x"], meant["width"]), abs=6)
    one.locator(".percent").click()
    expect(one.locator(".percent")).to_have_text("100 %")
    shown = box(frame)
    meant = box(node(one, "fetch-api"))
    assert (shown["x"], shown["y"]) == pytest.approx((meant["x"], meant["y"]), abs=6)
    one.locator(".stage").focus()
    one.keyboard.press("f")
    node(one, "root").click()
    expect(two.locator(".other-frame")).to_have_count(1)
    two.context.close()
    expect(one.locator(".other, .other-frame")).to_have_count(0)


def test_what_others_drag_is_seen_while_it_moves_and_goes_back_when_they_give_up(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    seen = node(two, "error-handler")
    node(one, "root").click()
    expect(two.locator(".other-frame")).to_have_count(1)
    before = box(seen)
    stored = offline_site.node("error-handler")["posX"]
    at = box(node(one, "error-handler"))
    x = at["x"] + at["width"] / 2
    y = at["y"] + at["height"] / 2
    one.mouse.move(x, y)
    one.mouse.down()
    one.mouse.move(x + 60, y + 40, steps=4)
    two.wait_for_selector(".node.dragged[data-key='error-handler']")
    moved = box(seen)
    assert moved["x"] > before["x"] + 40
    assert offline_site.node("error-handler")["posX"] == stored
    one.mouse.move(x, y, steps=4)
    one.mouse.up()
    expect(two.locator(".node.dragged")).to_have_count(0)
    assert box(seen) == before
