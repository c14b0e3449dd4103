"""An admin reads what is configured, and tries a key that nothing keeps."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.graphrag.llm.wire import openai_text, streamed
from tests.support.scripted_http import Answer, ScriptedServer

KEY = "sk-a-key-of-the-form-4711"


def test_an_admin_reads_the_settings_and_tries_a_key(offline_site: Site, open_page: OpenPage) -> None:
    page = open_page(offline_site)
    page.get_by_role("button", name="Settings").click()
    dialog = page.get_by_role("dialog", name="Settings")
    dialog.get_by_text("Limits").click()
    expect(dialog.get_by_role("row", name="NODIUS_RATE_LIMIT")).to_contain_text("30")
    with ScriptedServer() as server:
        dialog.get_by_label("Provider").select_option("compatible")
        dialog.get_by_label("Model", exact=True).fill("my-model")
        dialog.get_by_label("Address of the server").fill(f"{server.url}/v1")
        dialog.get_by_label("Key").fill(KEY)
        server.play(Answer(status=401, body={"error": {"message": "who are you?"}}))
        dialog.get_by_role("button", name="Ask it a question").click()
        expect(dialog.get_by_text("It does not work")).to_be_visible()
        server.play(streamed(openai_text("Blue.")))
        page.keyboard.press("Enter")
        expect(dialog.get_by_text("It answers")).to_be_visible()
        assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    expect(dialog.locator(".trial-detail")).to_have_text("Blue.")
    expect(dialog.locator(".trial-line")).to_contain_text("NODIUS_MODEL=my-model")
    assert KEY not in dialog.inner_text()
    assert KEY not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
