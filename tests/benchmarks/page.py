"""How soon the page shows something, how soon a graph is drawn, how it moves, and
what it all weighs.

Run: `make bench-page`, or `python -m tests.benchmarks.page --help`. Chromium without a graphics
card, driven by Playwright, reads the page from a service on the same computer. Every opening is
cold: a browser context of its own, with nothing cached. Frames are the browser's own: between two
of them a wheel event is given. Requests and bytes are counted until the network rests; slow
networks are those that Chromium's developer tools offer under these names; a remote move is what
the page works (script, style, layout) for one move of one node by somebody else.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright
from websockets.sync.client import connect

from tests.benchmarks.load_server import percentile
from tests.benchmarks.machine import described
from tests.e2e.conftest import CHROMIUM, FLAGS
from tests.e2e.graphs import large_graph
from tests.e2e.site import GRAPH, Site, running_site

SIZES = (500, 2_000, 5_000)
FRAMES = 150
MOVES = 12
NETWORKS = {"fast 3G": (562.5, 180_000), "slow 3G": (2_000, 50_000)}
"""Latency of an answer in milliseconds, and bytes each second."""
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


@dataclass(frozen=True, slots=True)
class Opened:
    """Units: milliseconds since the page was asked for, each the median of the runs."""

    what: str
    paint_ms: float
    drawn_ms: float
    requests: float
    own_kb: float
    """Of the page itself (HTML, scripts, styles, pictures, texts), as they came
    over the network.
    """
    data_kb: float
    elements: float


def opened(
    browser: Browser,
    site: Site,
    what: str,
    graph: str | None,
    runs: int,
    network: str | None = None,
) -> Opened:
    """Open the page `runs` times."""
    found = [opened_once(browser, site, graph, network) for _ in range(runs)]
    return Opened(what, *(median(values) for values in zip(*found, strict=True)))


def opened_once(
    browser: Browser, site: Site, graph: str | None, network: str | None = None
) -> tuple[float, ...]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        devtools, traffic = watched(context, page)
        if network:
            latency, speed = NETWORKS[network]
            limits = {"latency": latency, "downloadThroughput": speed, "uploadThroughput": speed}
            devtools.send("Network.emulateNetworkConditions", {"offline": False, **limits})
        page.add_init_script(WATCH_DRAWN)
        page.goto(site.url if graph is None else f"{site.url}#graph={graph}", wait_until="commit")
        page.wait_for_function(IS_OPENED, timeout=120_000)
        page.wait_for_load_state("networkidle")
        paint, drawn = page.evaluate(OPENED)
        elements = page.evaluate("document.querySelectorAll('*').length")
        data = sum(size for url, size in traffic if "/api/" in url) / 1000
        own = sum(size for url, size in traffic if "/api/" not in url) / 1000
        return paint, drawn, len(traffic), own, data, elements
    finally:
        context.close()


def watched(context: BrowserContext, page: Page) -> tuple[CDPSession, list[tuple[str, float]]]:
    """Return the developer tools, and a list of what is read: address and bytes."""
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    urls: dict[str, str] = {}
    traffic: list[tuple[str, float]] = []

    def sent(event: dict[str, Any]) -> None:
        urls[event["requestId"]] = event["request"]["url"]

    def came(event: dict[str, Any]) -> None:
        traffic.append((urls[event["requestId"]], event["encodedDataLength"]))

    devtools.on("Network.requestWillBeSent", sent)
    devtools.on("Network.loadingFinished", came)
    return devtools, traffic


def remote_move(browser: Browser, site: Site, graph: str) -> float:
    """Return the milliseconds that the page works for a move of one node by somebody else."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    try:
        page = context.new_page()
        page.goto(f"{site.url}#graph={graph}")
        page.wait_for_selector("main[data-state=ready] .node", state="attached")
        page.wait_for_load_state("networkidle")
        devtools = context.new_cdp_session(page)
        devtools.send("Performance.enable")
        time.sleep(2)  # what the page does once it stands
        before = worked(devtools)
        with connect(f"{site.url.replace('http', 'ws')}ws") as socket:
            said = {"type": "registerUserOnGraph", "name": "", "sheetId": "0", "graphKey": graph}
            socket.send(json.dumps({**said, "fromTimestamp": 0, "_id": 1}))
            for i in range(MOVES):
                step = {
                    "sheetId": "0",
                    "nodeId": f"n{i}",
                    "animatePos": True,
                    "i": {"o": 1, "p": ["posX"], "v": 7 + i},
                }
                edit = {"type": "applyInstructionToGraph", "instructions": [step], "_id": i + 2}
                socket.send(json.dumps(edit))
                page.wait_for_timeout(250)
        return (worked(devtools) - before) / MOVES
    finally:
        context.close()


def worked(devtools: CDPSession) -> float:
    answer = cast("dict[str, Any]", devtools.send("Performance.getMetrics"))
    found: dict[str, float] = {one["name"]: one["value"] for one in answer["metrics"]}
    return 1000 * sum(
        found[name] for name in ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
    )


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
    page.locator(".stage").focus()
    page.keyboard.press("0" if zoomed else "f")
    page.wait_for_selector(f".stage[data-detail={'near' if zoomed else 'far'}]")
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
            *(
                opened(browser, site, f"graph of {n:,} nodes", f"large{n}", given.runs)
                for n in SIZES
            ),
        ]
        slow = [
            opened(
                browser, site, f"graph of 9 nodes, {network}", GRAPH, min(3, given.runs), network
            )
            for network in NETWORKS
        ]
        moves = {n: moved(browser, site, f"large{n}") for n in SIZES}
        remote = {n: remote_move(browser, site, f"large{n}") for n in SIZES}
        version = browser.version
        browser.close()
    print(f"Chromium {version} without a graphics card, {described()}.\n")
    print(openings_table(openings + slow))
    print(f"\n{moves_table(moves)}\n")
    print("\n".join(f"One remote move, {n:,} nodes: {ms:.1f} ms" for n, ms in remote.items()))
    return 0


def openings_table(openings: list[Opened]) -> str:
    rows = [
        f"| {one.what} | {one.paint_ms:.0f} | {one.drawn_ms:.0f} | {one.requests:.0f} | {one.own_kb:.0f} "
        f"| {one.data_kb:.0f} | {one.elements:.0f} |"
        for one in openings
    ]
    head = (
        "| opened cold | first paint, ms | drawn, ms | requests | page, kB | data, kB | elements |"
    )
    return "\n".join([head, "|---|--:|--:|--:|--:|--:|--:|", *rows])


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
