"""Editing by hand: copies, new nodes after others, forms, whole graphs, and a sheet
that is tidied.
"""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import node

PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  document.querySelector(".stage").dispatchEvent(
    new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""


def stored(site: Site, graph: str = GRAPH) -> dict[str, Any]:
    view = site.rest("GET", f"/api/graphs/{graph}/view")
    return {
        "nodes": {n["_key"]: n for n in view["nodes"]},
        "edges": {e["_key"]: e for e in view["edges"]},
    }


def choose(page: Page, *keys: str) -> None:
    for i, key in enumerate(keys):
        node(page, key).focus()
        if i:
            page.keyboard.press(" ")
        else:
            node(page, key).click()


def step(name: str, x: int, code: str = "") -> dict[str, Any]:
    code_ = {"jsCode": code} if code else {}
    kind = "n8n-nodes-base.code" if code else "n8n-nodes-base.set"
    return {
        "id": name,
        "name": name,
        "type": kind,
        "typeVersion": 1,
        "position": [x, 0],
        "parameters": code_,
    }


def test_nodes_are_copied_with_their_edges_over_sheets_and_graphs_and_one_undo_takes_them_back(
    site: Site, open_page: OpenPage
) -> None:
    code = """return $node["Set"].json.a + $('Set').item + $("Elsewhere").x + $items("Set")[0]
+ $node.Set.json.a + $( "Set" ).x + "{\\"a\\": \\"{{ $(\\"Set\\") }}\\"}";"""
    workflow = {
        "name": "Orders",
        "nodes": [step("Set", 0), step("Code", 300, code)],
        "connections": {"Set": {"main": [[{"node": "Code", "type": "main", "index": 0}]]}},
    }
    site.rest(
        "POST",
        "/api/graphs/import?graphKey=orders&fileName=o.json",
        content=json.dumps(workflow).encode(),
    )
    before = stored(site, "orders")
    page = open_page(site, "orders")
    other = open_page(site, "orders")
    page.locator(".stage").focus()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+c")
    other.locator(".stage").focus()
    choose(other, "set")
    other.keyboard.press("Delete")
    expect(node(page, "set")).to_have_count(0)
    page.keyboard.press("Control+v")
    expect(page.locator(".node")).to_have_count(3)
    page.keyboard.press("Control+v")
    expect(page.locator(".node")).to_have_count(5)
    now = stored(site, "orders")
    made = {n["data"]["name"]: n for n in now["nodes"].values()}
    assert set(made) == {"Code", "Set", "Code1", "Set1", "Code2"}
    forms = (
        """$node["Set1"] $('Set1') $items("Set1") $("Elsewhere") $node.Set1.json $(\\"Set1\\")"""
    )
    for said in (*forms.split(), '$( "Set1" )'):
        assert said in made["Code2"]["process"]
    assert {(e["source"], e["target"]) for e in now["edges"].values()} == {
        (made["Set"]["_key"], made["Code1"]["_key"]),
        (made["Set1"]["_key"], made["Code2"]["_key"]),
    }
    assert made["Set1"]["origin"].get("id") is None
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(page.locator(".node")).to_have_count(1)
    expect(other.locator(".node")).to_have_count(1)
    nba = open_page(site, sheet="1", context=page.context)
    nba.locator(".stage").focus()
    before_there = nba.locator(".node").count()
    nba.keyboard.press("Control+v")
    expect(nba.locator(".node")).to_have_count(before_there + 2)
    nba.keyboard.press("Control+x")
    expect(nba.locator(".node")).to_have_count(before_there)
    assert set(before["nodes"]) == {"set", "code"}


def test_what_is_pasted_lies_on_no_other_node_however_often(page: Page, site: Site) -> None:
    page.locator(".stage").focus()
    choose(page, "fetch-api", "filter-active")
    page.keyboard.press("Control+c")
    expect(page.locator(".toast", has_text="2 nodes copied")).to_be_visible()
    count = page.locator(".node").count()
    for i in range(1, 4):
        page.keyboard.press("Control+v")
        expect(page.locator(".node")).to_have_count(count + 2 * i)
    nodes = [one for one in stored(site)["nodes"].values() if one["sheet"] == "0"]
    boxes = [(n["posX"], n["posY"], n["size"]["width"], n["size"]["height"]) for n in nodes]
    assert [
        (one, other)
        for i, one in enumerate(boxes)
        for other in boxes[:i]
        if one[0] < other[0] + other[2]
        and other[0] < one[0] + one[2]
        and one[1] < other[1] + other[3]
        and other[1] < one[1] + one[3]
    ] == []


def test_a_toast_never_covers_the_menu_of_the_canvas(page: Page) -> None:
    page.locator(".stage").focus()
    page.evaluate(PASTE, "just words")
    toast = page.locator(".toast", has_text="holds no nodes")
    expect(toast).to_be_visible()
    place = toast.bounding_box()
    assert place is not None
    page.mouse.click(place["x"] + 40, place["y"] - 60, button="right")
    items = page.locator(".context-menu [role=menuitem]")
    expect(items.first).to_be_visible()
    covered = """(item) => {
      const { left, top, width, height } = item.getBoundingClientRect();
      return !item.contains(document.elementFromPoint(left + width / 2, top + height / 2));
    }"""
    expect(toast).to_be_visible()
    assert not any(item.evaluate(covered) for item in items.all())


def test_what_cannot_be_pasted_is_said_and_nothing_of_it_is_believed(
    page: Page, site: Site
) -> None:
    page.locator(".stage").focus()
    before = stored(site)
    alike: dict[str, Any] = {"posX": 0, "posY": 0, "type": "starter", "handles": {}}
    hostile: dict[str, Any] = {
        "_key": "../x",
        "graphKey": "another",
        "sheet": "9",
        "posX": "1e9",
        "type": "starter",
        "data": {"name": "<b>"},
    }
    refused: list[tuple[dict[str, Any], str]] = [
        (
            {"nodes": [{"_key": "a", "type": "no-such-type"}]},
            "its type is not known in this workspace",
        ),
        ({"nodes": [{"_key": f"n{i}", **alike} for i in range(301)]}, "At most 300 nodes"),
        ({"nodes": 7, "edges": [None]}, "The clipboard"),
    ]
    for clip, said in refused:
        page.evaluate(PASTE, json.dumps({"format": "nodius-clip", **clip}))
        expect(page.locator(".toast", has_text=said)).to_have_count(1)
    page.evaluate(PASTE, "just words")
    expect(page.locator(".toast", has_text="holds no nodes")).to_have_count(1)
    assert stored(site) == before
    edges = [{"_key": "e", "source": "../x", "target": "root"}, 7]
    page.evaluate(
        PASTE, json.dumps({"format": "nodius-clip", "nodes": [hostile, None], "edges": edges})
    )
    expect(page.locator(".toast", has_text="1 node pasted")).to_have_count(1)
    now = stored(site)
    (key,) = now["nodes"].keys() - before["nodes"].keys()
    assert (now["nodes"][key]["graphKey"], now["nodes"][key]["sheet"]) == (GRAPH, "0")
    assert now["edges"] == before["edges"]


def test_nodes_are_added_connected_aligned_and_filled_in_by_keyboard(
    page: Page, site: Site
) -> None:
    before = stored(site)
    node(page, "fetch-api").focus()
    page.keyboard.press("a")
    page.locator("dialog").get_by_role("button", name="error").click()
    expect(page.locator("dialog .palette-group").first).to_be_visible()
    page.locator("dialog input").fill("filter")
    page.keyboard.press("Enter")
    made = page.locator(".node.selected")
    expect(made).to_contain_text("Filter")
    key = made.get_attribute("data-key") or ""
    now = stored(site)
    (edge,) = (e for k, e in now["edges"].items() if k not in before["edges"])
    assert (edge["source"], edge["sourceHandle"], edge["target"]) == ("fetch-api", "1", key)
    page.keyboard.press("Control+z")
    expect(made).to_have_count(0)
    assert stored(site)["edges"] == before["edges"]
    page.keyboard.press("Control+Shift+z")
    node(page, key).focus()
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Connect to").press("Enter")
    page.locator("dialog input").fill("error-handler")
    page.keyboard.press("Enter")
    expect(page.locator(".toast", has_text="Connected")).to_have_count(1)
    assert any(
        (e["source"], e["target"]) == (key, "error-handler") for e in stored(site)["edges"].values()
    )
    choose(page, key, "error-handler", "fetch-api")
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Align").click()
    page.locator(".inspector [data-way=left]").click()
    expect(page.locator(".toast.error")).to_have_count(0)
    page.wait_for_function("() => true")
    page.locator(".inspector").get_by_role("button", name="Ask about these").click()
    expect(page.locator("#composer")).to_have_value("What do these do together?")
    expect(page.locator(".composer .block")).to_have_count(3)
    left = {k: stored(site)["nodes"][k]["posX"] for k in (key, "error-handler", "fetch-api")}
    assert len(set(left.values())) == 1


def test_data_is_written_in_a_form_of_its_type_and_a_graph_is_made_deleted_and_restored(
    site: Site, open_page: OpenPage, trouble: Trouble
) -> None:
    rule = {"type": "integer", "minimum": 1, "maximum": 9, "title": "Attempts"}
    schema = {
        "properties": {
            "retry": {"type": "object", "properties": {"n": rule}},
            "mode": {"enum": ["a", "b"]},
        }
    }
    config = {
        "_key": "t",
        "workspace": "default",
        "displayName": "Task",
        "node": {"type": "t"},
        "dataSchema": schema,
    }
    graph = {"_key": "tasks", "name": "Tasks", "workspace": "default", "sheetsList": {"0": "main"}}
    one = {
        "_key": "one",
        "graphKey": "tasks",
        "type": "t",
        "data": {"name": "One", "on": True, "text": "x"},
    }
    site.import_graph({"graph": graph, "nodes": [one], "edges": [], "configs": [config]}, "tasks")
    page = open_page(site, "tasks")
    other = open_page(site, "tasks")
    node(page, "one").focus()
    page.keyboard.press("Enter")
    field = page.get_by_label("Attempts")
    for text, said in (("12", "at most 9"), ("two", "a number"), ("1.5", "whole number")):
        field.fill(text)
        field.press("Enter")
        expect(page.locator(".form-field.number")).to_contain_text(said)
    field.fill("3")
    field.press("Enter")
    page.get_by_label("mode").select_option("b")
    page.get_by_label("on", exact=True).uncheck()
    expect(page.locator("pre.data")).to_contain_text('"n": 3')
    expect(page.locator("pre.data")).to_contain_text('"on": false')
    assert site.node("one", "tasks")["data"] == {
        "name": "One", "on": False, "text": "x", "retry": {"n": 3}, "mode": "b",
    }  # fmt: skip
    home = open_page(site, None)
    home.get_by_role("button", name="New graph").click()
    home.get_by_label("Name of the graph").fill("Fresh")
    home.keyboard.press("Enter")
    expect(home.locator("main")).to_have_attribute("data-state", "ready")
    home.goto(site.url)
    home.reload()
    card = home.locator("[data-graph=tasks]")
    expect(card.locator("svg.graph-picture rect")).to_have_count(1)
    card.get_by_role("button", name="More actions").click()
    home.get_by_role("menuitem", name="Duplicate").click()
    expect(home.locator(".graph-card", has_text="Tasks (copy)")).to_have_count(1)
    card.get_by_role("button", name="More actions").click()
    home.get_by_role("menuitem", name="Delete").click()
    home.locator("dialog").get_by_role("button", name="Delete").click()
    expect(card).to_have_count(0)
    for sent_away in (page, other):
        expect(sent_away.locator("main")).to_have_attribute("data-state", "home")
        expect(sent_away.locator(".toast", has_text="This graph was deleted")).to_have_count(1)
    home.locator(".deleted-graphs summary").click()
    home.locator(".deleted-graphs").get_by_role("button", name="Restore").click()
    expect(card).to_have_count(1)
    assert site.node("one", "tasks")["data"]["retry"] == {"n": 3}
    trouble.forgive("404", "1013", "WebSocket")


def test_what_n8n_copied_is_pasted_and_the_graph_is_downloaded_for_n8n_or_whole(
    site: Site, open_page: OpenPage
) -> None:
    workflow: dict[str, Any] = {"name": "Orders", "nodes": [step("Set", 0)], "connections": {}}
    address = "/api/graphs/import?graphKey=orders&fileName=o.json"
    site.rest("POST", address, content=json.dumps(workflow).encode())
    copied = {
        "nodes": [step("Set", 0), step("Charge", 300, "return $('Set').all();")],
        "connections": {"Set": {"main": [[{"node": "Charge", "type": "main", "index": 0}]]}},
    }
    page = open_page(site, "orders")
    page.locator(".stage").focus()
    # nothing was selected before: the clipboard is read with it
    page.evaluate(PASTE, json.dumps(copied))
    expect(page.locator(".node")).to_have_count(3)
    expect(page.locator(".toast", has_text="2 nodes pasted")).to_be_visible()

    def downloaded(choice: str) -> dict[str, Any]:
        page.locator("header").get_by_label("Export JSON").click()
        with page.expect_download() as download:
            page.get_by_role("dialog").get_by_role("button", name=choice).click()
        assert download.value.suggested_filename == "orders.json"
        return json.loads(download.value.path().read_text(encoding="utf-8"))

    for_n8n = downloaded("For n8n")
    whole = downloaded("Nodius")
    names = {one["name"] for one in for_n8n["nodes"]}
    assert names == {"Set", "Set1", "Charge"}
    assert for_n8n["connections"]["Set1"]["main"][0][0]["node"] == "Charge"
    code = next(one["parameters"]["jsCode"] for one in for_n8n["nodes"] if one["name"] == "Charge")
    assert "$('Set1')" in code
    assert {one["data"]["name"] for one in whole["nodes"]} == names


KEYS = ("root", "fetch-api", "error-handler")


def test_a_sheet_is_tidied_after_a_preview_and_undone_in_one_step(
    site: Site, open_page: OpenPage
) -> None:
    page = open_page(site)
    other = open_page(site)

    def places() -> list[tuple[float, float]]:
        return [(site.node(key)["posX"], site.node(key)["posY"]) for key in KEYS]

    before = places()
    page.get_by_role("button", name="Tidy").click()
    bar = page.locator(".tidy-bar")
    expect(bar).to_contain_text("would stand in order. There are no crossings to remove.")
    ghost = page.locator(".ghost.moved").first
    expect(ghost).to_have_css("border-style", "solid")
    expect(ghost.locator(".ghost-tag")).to_have_count(0)
    expect(page.locator(".ghost-line.laid").first).to_be_attached()
    faint = page.locator(".node.leaving").first
    assert float(faint.evaluate("e => getComputedStyle(e).opacity")) < 0.5
    page.keyboard.press("Escape")
    expect(page.locator(".node.leaving")).to_have_count(0)
    expect(bar).to_be_hidden()
    expect(page.locator(".ghost")).to_have_count(0)
    assert places() == before
    page.get_by_role("button", name="Tidy").click()
    expect(bar.get_by_role("button", name="Apply")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Tidied.")).to_be_visible()
    after = places()
    assert after != before
    x, y = after[1]
    expect(node(other, KEYS[1])).to_have_css("transform", f"matrix(1, 0, 0, 1, {x:g}, {y:g})")
    page.get_by_role("button", name="Tidy").click()
    expect(page.get_by_text("Everything stands in order already.")).to_be_visible()
    page.locator(".stage").focus()
    page.keyboard.press("Control+z")
    expect(node(other, KEYS[1])).not_to_have_css("transform", f"matrix(1, 0, 0, 1, {x:g}, {y:g})")
    assert places() == before


def writes(page: Page, field: str, old: str, new: str) -> None:
    """Open a node's data or code as a text, and write something else in it; it is not saved yet."""
    if not page.locator(".inspector").is_visible():
        node(page, "error-handler").dblclick()
    section = page.locator(
        ".inspector section", has=page.get_by_role("heading", name=field, exact=True)
    )
    section.get_by_role("button", name="Edit").click()
    area = page.locator(".inspector textarea.code")
    area.fill(area.input_value().replace(old, new))


def save(page: Page) -> None:
    page.locator(".inspector").get_by_role("button", name="Save", exact=True).click()


def test_two_people_write_a_nodes_data_and_code_as_text_and_neither_loses_anything(
    site: Site, open_page: OpenPage
) -> None:
    """Different fields are both kept; of what both changed the second sees the first."""
    before = site.node("error-handler")
    one = open_page(site)
    other = open_page(site)
    writes(one, "Data", '"level": "error"', '"level": "warning",\n  "mine": 1')
    writes(other, "Data", '"level": "error"', '"level": "error",\n  "theirs": 2')
    save(other)
    expect(other.locator(".inspector textarea.code")).to_have_count(0)
    expect(one.locator(".inspector .stale:visible")).to_be_visible()
    save(one)
    expect(one.locator(".inspector textarea.code")).to_have_count(0)
    assert site.node("error-handler")["data"] == {
        **before["data"],
        "level": "warning",
        "mine": 1,
        "theirs": 2,
    }
    writes(one, "Code", before["process"], "mine")
    writes(other, "Code", before["process"], "theirs")
    save(other)
    expect(one.locator(".inspector .stale:visible")).to_be_visible()
    save(one)
    expect(one.locator(".inspector [role=alert]")).to_contain_text("Somebody else changed the same")
    expect(one.get_by_label("What somebody else stored")).to_have_text("theirs")
    assert site.node("error-handler")["process"] == "theirs"
    save(one)
    expect(one.locator(".inspector textarea.code")).to_have_count(0)
    assert site.node("error-handler")["process"] == "mine"


def test_the_form_of_an_imported_node_offers_the_usual_fields_of_its_type(
    site: Site, open_page: OpenPage
) -> None:
    call = {**step("Call", 0), "type": "n8n-nodes-base.httpRequest"}
    late = {**step("Late", 300), "type": "n8n-nodes-base.wait"}
    late["parameters"] = {"amount": "={{ $json.seconds }}"}
    content = json.dumps({"name": "W", "nodes": [call, late], "connections": {}}).encode()
    site.rest("POST", "/api/graphs/import?graphKey=w&fileName=w.json", content=content)
    inject = {"id": "i1", "type": "inject", "z": "f1", "x": 90, "y": 90, "wires": [[]]}
    flow = [{"id": "f1", "type": "tab", "label": "F"}, inject]
    content = json.dumps(flow).encode()
    site.rest("POST", "/api/graphs/import?graphKey=f&fileName=f.json", content=content)
    page = open_page(site, "w")
    node(page, "call").dblclick()
    page.get_by_label("method", exact=True).select_option("POST")
    url = page.get_by_label("url", exact=True)
    url.fill("https://api.example.org/orders")
    url.press("Enter")
    effect = page.locator(".node[data-key='call'] .node-effect")
    expect(effect).to_have_text("POST https://api.example.org/orders")
    parameters = stored(site, "w")["nodes"]["call"]["data"]["parameters"]
    assert parameters == {"method": "POST", "url": "https://api.example.org/orders"}
    node(page, "late").dblclick()
    expect(page.get_by_label("amount", exact=True)).to_have_value("={{ $json.seconds }}")
    flow_page = open_page(site, "f")
    flow_page.locator(".node", has_text="inject").dblclick()
    flow_page.get_by_label("payloadType", exact=True).select_option("json")
    flow_page.wait_for_selector(".save-mark.unsaved")
