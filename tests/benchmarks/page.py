"""How soon the page shows something, how soon a graph is drawn, and how smoothly it moves.

Run: `make bench-page`, or `python -m tests.benchmarks.page --help`. Chromium without a graphics card, driven
by Playwright, reads the page from a service on the same computer. Every opening is cold: a browser context
of its own, with nothing cached. Frames are the browser's own: between two of them a wheel event is given.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Page, sync_playwright

from tests.benchmarks.load_server import percentile
from tests.benchmarks.machine import described
from tests.e2e.conftest import CHROMIUM, FLAGS
from tests.e2e.graphs import large_graph
from tests.e2e.site import GRAPH, Site, running_site

SIZES = (500, 2_000)
FRAMES = 150
# Known from the page's own state: the frame in which the nodes stand has been handed to the screen.
WATCH_DRAWN = """
document.addEventListener("DOMContentLoaded", () => {
  const main = document.getElementById("canvas");
  const told = () => {
    if (main.dataset.state !== "ready" && main.dataset.state !== "home") return;
    if (window.drawnMs || !main.querySelector(".node, .graph-card")) return;
    requestAnimationFrame(() => requestAnimationFrame(() => (window.drawnMs ||= performance.now())));
  };
  new MutationObserver(told).observe(main, { subtree: true, childList: true, attributes: true });
});
"""
IS_OPENED = "() => window.drawnMs && performance.getEntriesByName('first-contentful-paint').length"
OPENED = """() => [performance.getEntriesByName("first-contentful-paint")[0].startTime, window.drawnMs]"""
MOVE = """([count, isZoom]) => new Promise((done) => {
  const stage = document.querySelector(".stage");
  const { left, top, width, height } = stage.getBoundingClientRect();
  const place = { clientX: left + width / 2, clientY: top + height / 2, bubbles: true, cancelable: true };
  const found = [];
  let last = 0;
  let step = 0;
  const frame = (now) => {
    if (last) found.push(now - last);
    last = now;
    if (step++ === count) return done(found);
    const back = Math.floor(step / 25) % 2 ? -1 : 1;
    const way = isZoom ? { deltaY: -18 * back, ctrlKey: true } : { deltaX: 60 * back, deltaY: 24 * back };
    stage.dispatchEvent(new WheelEvent("wheel", { ...place, ...way }));
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Units: milliseconds since the page was asked for, each the median of the runs."""

    what: str
    paint_ms: float
    drawn_ms: float


def opened(browser: Browser, site: Site, what: str, graph: str | None, runs: int) -> Opened:
    """Open the page `runs` times."""
    found = [opened_once(browser, site, graph) for _ in range(runs)]
    return Opened(what=what, paint_ms=median(f[0] for f in found), drawn_ms=median(f[1] for f in found))


def opened_once(browser: Browser, site: Site, graph: str | None) -> tuple[float, float]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        page.add_init_script(WATCH_DRAWN)
        page.goto(site.url if graph is None else f"{site.url}#graph={graph}")
        page.wait_for_function(IS_OPENED)
        paint, drawn = page.evaluate(OPENED)
        return paint, drawn
    finally:
        context.close()


def moved(browser: Browser, site: Site, graph: str) -> dict[str, list[float]]:
    """Return the milliseconds between frames while a graph is panned and zoomed."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        page.goto(f"{site.url}#graph={graph}")
        page.wait_for_selector("main[data-state=ready]")
        page.wait_for_selector(".node", state="attached")
        return {"far": frames(page, zoomed=False), "near": frames(page, zoomed=True)}
    finally:
        context.close()


def frames(page: Page, *, zoomed: bool) -> list[float]:
    """Pan and zoom the whole graph, or (`zoomed`) at the size at which nodes are read."""
    if zoomed:
        page.locator(".stage").focus()
        page.keyboard.press("0")
        page.wait_for_selector(".stage[data-detail=near]")
    panned: list[float] = page.evaluate(MOVE, [FRAMES, False])
    return panned + page.evaluate(MOVE, [FRAMES, True])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.page", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="cold openings of each")
    given = parser.parse_args(arguments)
    if CHROMIUM is None:
        print("no Chromium on this machine: install the package `chromium`", file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_site(Path(scratch)) as site,
        sync_playwright() as playwright,
    ):
        for size in SIZES:
            site.import_graph(large_graph(f"large{size}", size), key=f"large{size}")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        opened_once(browser, site, None)  # the service and the browser have started
        openings = [
            opened(browser, site, "list of graphs", None, given.runs),
            opened(browser, site, "graph of 9 nodes", GRAPH, given.runs),
            *(opened(browser, site, f"graph of {n:,} nodes", f"large{n}", given.runs) for n in SIZES),
        ]
        moves = {n: moved(browser, site, f"large{n}") for n in SIZES}
        version = browser.version
        browser.close()
    print(f"Chromium {version} without a graphics card, {described()}.\n")
    print(openings_table(openings))
    print(f"\n{moves_table(moves)}")
    return 0


def openings_table(openings: list[Opened]) -> str:
    rows = [f"| {one.what} | {one.paint_ms:.0f} | {one.drawn_ms:.0f} |" for one in openings]
    return "\n".join(["| opened cold | first contentful paint, ms | drawn, ms |", "|---|--:|--:|", *rows])


def moves_table(moves: dict[int, dict[str, list[float]]]) -> str:
    names = {"far": "whole graph in view", "near": "at 100 %"}
    rows = [
        f"| {n:,} nodes, {names[how]} | {' | '.join(f'{value:.0f}' for value in spread(ms))} |"
        for n, both in moves.items()
        for how, ms in both.items()
    ]
    head = ["| panned and zoomed | frame p50, ms | p95 | max |", "|---|--:|--:|--:|"]
    return "\n".join([*head, *rows])


def spread(values: list[float]) -> tuple[float, float, float]:
    """Return the middle, the value that 95 of 100 stay below, and the largest."""
    return percentile(values, 0.5), percentile(values, 0.95), max(values)


if __name__ == "__main__":
    sys.exit(main())
