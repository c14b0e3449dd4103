"""Takes the pictures of the page that the README shows: `python -m tests.e2e.screenshots`.

The NBA graph with a proposal drawn over it, answered by a script in place of a model,
once in each theme.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.conftest import CHROMIUM, FLAGS
from tests.e2e.site import GRAPH, Site, running_site
from tests.e2e.talk import answered, ask
from tests.support.scripted_provider import Says, ScriptedProvider, call

DOCS = Path(__file__).parents[2] / "docs"
THEMES = ("light", "dark")
MAX_BYTES = 250_000
PROPOSAL = {
    "type_key": "log-node",
    "data": {"name": "Warn of few players", "level": "warning"},
    "pos_x": 790,
    "pos_y": 550,
    "edges": [
        {
            "direction": "in",
            "handle_id": "0",
            "target_node_key": "filter-active",
            "target_handle_id": "0",
        }
    ],
    "reason": "A table with too few rows is easy to miss.",
}
ANSWER = (
    "{{node:fetch-api}} asks the statistics service and sends what fails to {{node:error-handler}}. "
    "{{node:filter-active}} keeps who played at least 10 games for {{node:display-html}}."
)


def take(browser: Browser, folder: Path, theme: str, size: tuple[int, int] = (1280, 800)) -> Path:
    """Play the story once and return the picture's path."""
    script = ScriptedProvider()
    script.play(
        ANSWER,
        Says(
            text="I would add one node.", calls=[call("propose_create_node_with_edges", PROPOSAL)]
        ),
    )
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_site(Path(scratch), script=script) as site,
    ):
        page = open_graph(browser, site, theme, size)
        ask(page, "What happens to the players that are fetched?")
        answered(page, "asks the statistics service")
        ask(page, "Warn me when too few players are left")
        answered(page, "I would add one node.")
        expect(page.locator(".ghost.added")).to_be_attached()
        path = folder / f"page-{theme}.png"
        let_rest(page)
        page.locator(".card").evaluate("(card) => card.scrollIntoView({ block: 'center' })")
        page.screenshot(path=path, animations="disabled")
        page.context.close()
    return path


def open_graph(browser: Browser, site: Site, theme: str, size: tuple[int, int]) -> Page:
    """Open the graph in a window of a size, in one theme, without animations."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, locale="en-US", reduced_motion="reduce"
    )
    context.add_init_script(f"localStorage.setItem('nodius.theme', '{theme}')")
    page = context.new_page()
    page.goto(f"{site.url}#graph={GRAPH}&sheet=0&panel=chat")
    page.wait_for_selector("main[data-state=ready]")
    page.wait_for_selector(".connection.open", state="attached")
    return page


def let_rest(page: Page) -> None:
    """Take the focus and the pointer away from what they changed; wait until the picture
    is drawn again.
    """
    page.mouse.move(1, 1)
    page.evaluate("() => document.activeElement?.blur()")
    page.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 500))")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.screenshots", description=__doc__)
    parser.add_argument("--into", type=Path, default=DOCS, help="folder of the pictures")
    folder: Path = parser.parse_args(arguments).into
    if CHROMIUM is None:
        print("no Chromium on this machine: install the package `chromium`", file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        taken = [take(browser, folder, theme) for theme in THEMES]
        browser.close()
    for path in taken:
        size = path.stat().st_size
        print(f"{path.name}: {size:,} bytes")
        if size > MAX_BYTES:
            print(f"{path.name} is larger than {MAX_BYTES:,} bytes", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
