"""Takes a picture of every view, to be looked at: `python -m tests.e2e.every_view --into FOLDER`.

Each scene of canvas_scenes.SCENES in both themes, 1280 and 390 px wide, and once in French.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from tests.e2e.canvas_scenes import SCENES
from tests.e2e.conftest import CHROMIUM, FLAGS
from tests.e2e.scenes import Scene
from tests.e2e.site import GRAPH, Site, running_site
from tests.support.scripted_provider import ScriptedProvider

SIZES = {1280: 800, 390: 844}
ON_CANVAS = ("canvas_and_answer", "inspector", "draft_in_conflict", "context_menu", "timeline", "tidy")
"""Scenes that are looked at on the canvas where there is room for one part only; and also beside it."""


def take(browser: Browser, scene: Scene, folder: Path) -> None:
    script, name = ScriptedProvider(), scene.__name__
    with tempfile.TemporaryDirectory() as scratch, running_site(Path(scratch), script=script) as site:
        page = scene(partial(open_page, browser), site, script, "light")
        for width, height in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(400)
            picture(page, folder / f"{name}-{width}")
            if width == 390 and name in ON_CANVAS:
                page.evaluate("document.querySelector('#bottom button').click()")
                page.wait_for_timeout(400)
                picture(page, folder / f"{name}-{width}-canvas")
        page.context.close()


def open_page(
    browser: Browser, site: Site, graph: str | None = GRAPH, panel: str = "chat", **options: Any
) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, locale="en-US", **options)
    page.goto(site.url if graph is None else f"{site.url}#graph={graph}&sheet=0&panel={panel}")
    page.wait_for_selector("html[data-ready=true]", state="attached")
    return page


def picture(page: Page, path: Path) -> None:
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(100)
        page.screenshot(path=f"{path}-{theme}.png", animations="disabled")
    page.evaluate("document.querySelector('.lang-switch').click()")
    page.wait_for_timeout(500)
    page.screenshot(path=f"{path}-fr.png", animations="disabled")
    page.evaluate("document.querySelector('.lang-switch').click()")
    page.wait_for_timeout(300)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.every_view", description=__doc__)
    parser.add_argument("--into", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--only", nargs="*", help="names of scenes")
    given = parser.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for scene in SCENES:
            if given.only and scene.__name__ not in given.only:
                continue
            try:
                take(browser, scene, given.into)
            except (PlaywrightError, AssertionError) as exc:  # the others are to be seen all the same
                print(f"{scene.__name__}: {str(exc)[:300]}")
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
