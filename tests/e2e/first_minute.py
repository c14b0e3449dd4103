"""Takes the film strip of docs/first-minute.md: `python -m tests.e2e.first_minute`.

One live session of the page that `nodius demo` serves, by rules and without a key; each frame is
taken at the second that its name says, counted from when the address was opened.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.conftest import CHROMIUM, FLAGS
from tests.e2e.talk import answered, ask, card, node, press

FOLDER = Path(__file__).parents[2] / "docs" / "first-minute"
SIZE = (1280, 720)
MAX_BYTES = 400_000
AS_WEBP = """async (png) => {
  const picture = await createImageBitmap(await (await fetch(png)).blob());
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  canvas.getContext("2d").drawImage(picture, 0, 0);
  return canvas.toDataURL("image/webp", 0.7);
}"""


class Strip:
    """The frames of a page that was opened when this was made."""

    def __init__(self, page: Page, encoder: Page) -> None:
        self._page, self._encoder, self._began = page, encoder, time.monotonic()
        self.taken: list[Path] = []

    def at(self, second: int) -> None:
        """Wait for the second and take the frame. Raises: AssertionError where it is too late."""
        late = time.monotonic() - self._began - second
        assert late < 0.5, f"the page was {late:.1f} s late for second {second}"
        self._page.wait_for_timeout(max(0.0, -late * 1000))
        png = base64.b64encode(self._page.screenshot()).decode()
        webp: str = self._encoder.evaluate(AS_WEBP, f"data:image/png;base64,{png}")
        path = FOLDER / f"second-{second:02}.webp"
        path.write_bytes(base64.b64decode(webp.partition(",")[2]))
        self.taken.append(path)


def play(browser: Browser, address: str) -> list[Path]:
    """Do what somebody does who has never seen it."""
    page, encoder = (
        browser.new_page(
            viewport={"width": SIZE[0], "height": SIZE[1]}, locale="en-US", color_scheme="light"
        )
        for _ in range(2)
    )
    strip = Strip(page, encoder)
    page.goto(address, wait_until="commit")
    answered(page, "fails")
    strip.at(3)
    node(page, "fetch-api").dblclick()
    expect(page.locator(".inspector")).to_be_visible()
    strip.at(11)
    page.keyboard.press("Escape")
    ask(page, "What comes after Keep active players?")
    answered(page, "Player table")
    strip.at(20)
    ask(page, "add a log-node named Active players after filter-active")
    expect(page.locator(".ghost.added")).to_be_visible()
    strip.at(30)
    press(card(page, "pending"), "Approve")
    expect(card(page, "applied")).to_be_visible()
    strip.at(38)
    page.locator("#tab-review").click()
    page.locator("[data-view=history]").click()
    page.locator(".history-item summary").first.click()
    strip.at(45)
    page.get_by_role("button", name="All graphs").first.click()
    expect(page.locator(".graph-card")).to_have_count(3)
    strip.at(51)
    page.locator(".graph-card[data-graph=greenhouse-climate] .graph-open").click()
    page.locator("#tab-chat").click()
    expect(page.locator(".welcome")).to_be_visible()
    strip.at(59)
    return strip.taken


def main() -> int:
    if CHROMIUM is None:
        print("no Chromium on this machine: install the package `chromium`", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    demo = "from nodius_graphrag import run; run()"
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        given = [
            "demo",
            "--serve",
            "--no-browser",
            "--port",
            "0",
            "--db",
            f"sqlite:{scratch}/demo.db",
        ]
        command = [sys.executable, "-u", "-c", demo, *given]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "400"}
        ) as served:
            try:
                assert served.stdout is not None
                found = next(
                    filter(
                        None, (re.search(r"http://\S+#graph=\S+", line) for line in served.stdout)
                    )
                )
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                taken = play(browser, found[0])
                browser.close()
            finally:
                served.terminate()
    sizes = {path.name: path.stat().st_size for path in taken}
    print("\n".join(f"{name}: {size:,} bytes" for name, size in sizes.items()))
    print(f"{sum(sizes.values()):,} bytes in all")
    return int(sum(sizes.values()) > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main())
