"""Takes the pictures of docs/connections.md: `python -m tests.e2e.connection_pictures`.

A real Node-RED is connected by the form, its graph is changed here, and the change is shown before
it is written back.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from tests.e2e.conftest import CHROMIUM, FLAGS
from tests.e2e.first_minute import AS_WEBP
from tests.e2e.site import running_site
from tests.e2e.talk import press
from tests.e2e.test_asked import rename
from tests.support.in_thread import in_thread
from tests.support.workflow_servers import NodeRed, node_red

FOLDER = Path(__file__).parents[2] / "docs" / "connections"
PORT = 1880  # where Node-RED listens unless it is told otherwise
FLOW: list[dict[str, Any]] = [
    {"id": "t1", "type": "tab", "label": "Greenhouse"},
    {"id": "n1", "z": "t1", "type": "inject", "name": "Every minute", "repeat": "60",
     "x": 130, "y": 120, "wires": [["n2"]]},
    {"id": "n2", "z": "t1", "type": "function", "name": "Too warm?",
     "func": "return msg.payload > 28 ? msg : null;", "x": 350, "y": 120, "wires": [["n3"]]},
    {"id": "n3", "z": "t1", "type": "debug", "name": "Open the window",
     "x": 580, "y": 120, "wires": []},
]  # fmt: skip


def play(page: Page, encoder: Page, server: NodeRed) -> list[Path]:
    """Do what somebody does who connects a server for the first time."""
    taken: list[Path] = []

    def take(name: str) -> None:
        png = base64.b64encode(page.screenshot()).decode()
        webp: str = encoder.evaluate(AS_WEBP, f"data:image/png;base64,{png}")
        path = FOLDER / f"{name}.webp"
        path.write_bytes(base64.b64decode(webp.partition(",")[2]))
        taken.append(path)

    page.get_by_role("button", name="Connected servers").click()
    press(page.get_by_role("dialog"), "Connect a server")
    form = page.get_by_role("dialog").last
    form.get_by_role("radio", name="Node-RED").check()
    form.get_by_label("Address", exact=True).fill(server.address)
    form.get_by_role("checkbox", name="private network").check()
    form.get_by_label("Name of the connection").fill("greenhouse")
    form.get_by_label("Write changes back").select_option("ask")
    form.get_by_label("Address", exact=True).focus()
    take("connect")
    press(form, "Connect")
    row = page.locator("article[data-connection=greenhouse]")
    expect(row).to_contain_text("1 in step")
    press(row, "Workflows: greenhouse")
    expect(row.get_by_role("link")).to_be_visible()
    take("servers")
    row.get_by_role("button", name="greenhouse", exact=True).click()
    page.wait_for_selector("main[data-state=ready]")
    rename(page, "too-warm", "Warmer than 28 °C?")
    page.keyboard.press("Escape")
    mark = page.locator(".link-mark")
    expect(mark).to_contain_text("changed here")
    mark.click()
    dialog = page.get_by_role("dialog")
    press(dialog, "Write back…")
    expect(dialog.locator(".push")).to_contain_text("waits for a decision")
    take("write-back")
    press(dialog, "Write it")
    expect(mark).to_contain_text("in step")
    return taken


def main() -> int:
    if CHROMIUM is None:
        print("no Chromium on this machine: install the package `chromium`", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_site(Path(scratch), graph=False) as site,
        in_thread(node_red(Path(scratch), port=PORT)) as (server, loop),
        sync_playwright() as playwright,
    ):
        asyncio.run_coroutine_threadsafe(server.deploy(FLOW), loop).result(60)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page, encoder = (
            browser.new_page(
                viewport={"width": 1280, "height": 800}, locale="en-US", color_scheme="light"
            )
            for _ in range(2)
        )
        page.goto(site.url)
        page.wait_for_selector("html[data-ready=true]", state="attached")
        for path in play(page, encoder, server):
            print(f"{path.name}: {path.stat().st_size:,} bytes")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
