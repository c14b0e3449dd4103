"""Looking back: the graph as it was, compared with now, brought back; and who set a field."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.test_live import drag, node


def test_a_person_drags_back_compares_and_restores_while_somebody_edits(
    offline_site: Site, open_page: OpenPage
) -> None:
    one, two = open_page(offline_site), open_page(offline_site)
    begin = offline_site.node("root")["posX"]
    for _ in range(3):
        drag(one, "root", 40, 0)
        one.wait_for_timeout(150)
    one.locator("header").get_by_label("Timeline", exact=True).click()
    timeline = one.get_by_role("region", name="Timeline")
    moment = timeline.get_by_role("slider")
    expect(moment).to_be_focused()
    for _ in range(3):
        moment.press("ArrowLeft")
    expect(timeline).to_contain_text("moved Start")
    now = offline_site.node("root")["posX"]
    there = "e => getComputedStyle(e).transform"
    expect(node(one, "root")).not_to_have_css("transform", node(two, "root").evaluate(there))
    timeline.get_by_role("button", name="Compare from here").click()
    expect(one.locator(".ghost.moved[data-key=root]")).to_be_visible()
    drag(two, "error-handler", 40, 40)  # somebody goes on meanwhile; the comparison with now follows
    expect(one.locator(".ghost.moved[data-key='error-handler']")).to_be_visible()
    timeline.get_by_role("button", name="Compare from here").click()
    expect(one.locator(".ghost")).to_have_count(0)
    moment.press("Home")
    kept = offline_site.node("error-handler")["posX"]
    node(one, "root").click()
    timeline.get_by_role("button", name="Restore what is selected").click()
    expect(timeline).to_have_count(0)
    one.wait_for_timeout(500)  # both are sent it
    assert node(one, "root").evaluate(there) == node(two, "root").evaluate(there)
    assert begin <= offline_site.node("root")["posX"] < now
    assert offline_site.node("error-handler")["posX"] == kept
    node(one, "root").dblclick()
    one.get_by_text("Who set this").click()
    expect(one.locator(".blame").first).to_contain_text("by hand")
