"""Importing on the page: what became of a file, what is left to be embedded, and when
graphs were made.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from playwright.sync_api import FilePayload, Page, expect

from mock_data import load_text
from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site, running_site
from tests.e2e.talk import card, node, press
from tests.e2e.test_asked import rename
from tests.support.scripted_http import Answer, ScriptedServer


def vectors(count: int) -> dict[str, object]:
    """What an embedding service answers for so many texts."""
    data = [
        {"index": i, "object": "embedding", "embedding": [1.0, float(i), 0.5]} for i in range(count)
    ]
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"object": "list", "model": "m", "data": data, "usage": usage}


def test_what_is_left_to_embed_of_an_imported_graph_is_shown_until_it_is_done(
    tmp_path: Path, open_page: OpenPage
) -> None:
    held = threading.Event()
    with ScriptedServer() as service:
        service.play(lambda asked: Answer(body=vectors(len(asked.json["input"])), held=held))
        address = f"{service.url}/v1"
        with running_site(
            tmp_path, embeddings="openai", embeddings_base_url=address, embeddings_api_key="k"
        ) as site:
            page = open_page(site)
            left = page.get_by_text("left to embed")
            expect(left).to_be_visible()
            page.get_by_role("button", name="All graphs").first.click()
            expect(page.locator(".graph-card")).to_contain_text("left to embed")
            page.locator(".graph-open").click()
            expect(left).to_be_visible()
            held.set()
            expect(left).to_have_count(0)
            page.context.close()


def test_a_graph_in_the_list_says_when_it_was_changed_and_made(page: Page) -> None:
    page.locator(".node[data-key=root]").click()
    page.keyboard.press("ArrowRight")
    page.locator(".save-mark.unsaved").click()
    page.wait_for_selector(".save-mark.saved")
    page.get_by_role("button", name="All graphs").first.click()
    page.reload()
    expect(page.locator(".graph-card time").first).to_have_text("changed just now")


def import_again(page: Page, **names: str) -> None:
    """Import the file of the graph again, in which nodes are called otherwise now."""
    document = json.loads(load_text("nba.json"))
    for one in document["nodes"]:
        one["data"]["name"] = names.get(one["_key"].replace("-", "_"), one["data"].get("name"))
    text = json.dumps(document).encode()
    with page.expect_file_chooser() as chooser:
        page.locator(".home-tools button").last.click()
    chooser.value.set_files(
        FilePayload(name="graph.json", mimeType="application/json", buffer=text)
    )


def test_importing_again_says_what_it_kept_and_offers_the_file_as_it_is(
    offline_site: Site, open_page: OpenPage
) -> None:
    for _ in range(5):  # a search field and the button to import stand over six graphs and more
        offline_site.import_graph(key=f"other{_}")
    page = open_page(offline_site)
    rename(page, "error-handler", "Mine")
    page.locator(".save-mark.unsaved").click()
    page.wait_for_selector(".save-mark.saved")
    page.get_by_role("button", name="All graphs").first.click()
    import_again(page, error_handler="Theirs", fetch_api="Fetched")
    notice = page.locator(".toast").filter(has_text="graph.json was imported again.")
    expect(notice).to_contain_text("1 change taken from the file")
    expect(notice).to_contain_text("1 changed in both")
    expect(node(page, "fetch-api")).to_contain_text("Fetched")
    expect(node(page, "error-handler")).to_contain_text("Mine")
    press(notice, "Details…")
    press(page.get_by_role("dialog"), "Decide on it")
    expect(card(page, "pending", "review")).to_be_visible()
    page.get_by_role("button", name="All graphs").first.click()
    import_again(page, error_handler="Theirs", fetch_api="Fetched")
    press(page.locator(".toast").filter(has_text="nothing has changed"), "Overwrite with the file…")
    press(page.get_by_role("dialog"), "Overwrite")
    expect(node(page, "error-handler")).to_contain_text("Theirs")
