"""A browser, pages that fail the test when something goes wrong in them, and the site
they look at.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.site import GRAPH, Site, running_site
from tests.support.scripted_provider import ScriptedProvider

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None
)
HERE = Path(__file__).parent
PATIENCE_MS = 60_000
"""How long a page may take on a machine that is busy with other work; a good page takes
none of it.
"""

expect.set_options(timeout=PATIENCE_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: install the package `chromium` to test the page")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@dataclass(slots=True)
class Trouble:
    """What went wrong in the pages of a test. A test takes away what it meant to happen."""

    found: list[str] = field(default_factory=list[str])

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.found.append(f"error: {error}"))
        page.on(
            "console",
            lambda message: (
                self.found.append(f"console: {message.text}")
                if message.type in ("error", "warning")
                else None
            ),
        )
        page.on(
            "dialog",
            lambda dialog: (self.found.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        )

    def forgive(self, *words: str) -> None:
        """Forget what names one of these words."""
        self.found = [one for one in self.found if not any(word in one for word in words)]


@pytest.fixture
def trouble() -> Iterator[Trouble]:
    """Collects errors, warnings, and whatever the page's policy refuses; any that is left
    fails the test.
    """
    made = Trouble()
    yield made
    assert made.found == []


OpenPage = Callable[..., Page]


@pytest.fixture
def contexts(browser: Browser, trouble: Trouble) -> Iterator[Callable[..., BrowserContext]]:
    made: list[BrowserContext] = []

    def new(**options: Any) -> BrowserContext:
        given: dict[str, Any] = {
            "viewport": {"width": 1280, "height": 800},
            "locale": "en-US",
            **options,
        }
        context = browser.new_context(**given)
        context.set_default_timeout(PATIENCE_MS)
        context.on("page", lambda page: trouble.watch(page))  # the driver marks what it is given
        made.append(context)
        return context

    yield new
    for context in made:
        context.close()


@pytest.fixture
def open_page(contexts: Callable[..., BrowserContext]) -> OpenPage:
    """Open the page of a site, on a graph or (None) on the list of graphs;
    options are the context's.
    """

    def opened(
        site: Site,
        graph: str | None = GRAPH,
        *,
        sheet: str = "0",
        panel: str = "chat",
        context: BrowserContext | None = None,
        **options: Any,
    ) -> Page:
        page = (context or contexts(**options)).new_page()
        page.goto(
            site.url if graph is None else f"{site.url}#graph={graph}&sheet={sheet}&panel={panel}"
        )
        page.wait_for_selector("html[data-ready=true]", state="attached")
        if graph is not None:
            page.wait_for_selector("main[data-state=ready]")
            page.wait_for_selector(".connection.open", state="attached")
        return page

    return opened


@pytest.fixture
def script() -> ScriptedProvider:
    """Plays the model. The test says what it answers: `script.play(...)`."""
    return ScriptedProvider()


@pytest.fixture
def site(tmp_path: Path, script: ScriptedProvider) -> Iterator[Site]:
    """A service over the NBA graph, without sign-in, answered by `script`."""
    with running_site(tmp_path, script=script) as running:
        yield running
    script.check()


@pytest.fixture
def offline_site(tmp_path: Path) -> Iterator[Site]:
    """A service over the NBA graph with no language model."""
    with running_site(tmp_path) as running:
        yield running


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Page:
    """The page on the NBA graph: answered by `script` where the test has one, else with
    no language model.

    It is opened after its site, and so closed before it: a page whose site goes says so
    in the console.
    """
    site = request.getfixturevalue("site" if "script" in request.fixturenames else "offline_site")
    return request.getfixturevalue("open_page")(site)
