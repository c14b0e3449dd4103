"""What the bridge of telephone calls costs, beside a direct connection and a bare relay in
the same run; and what the text engine adds to the turns of its calls.

Run: `make bench-voice`, or `python -m tests.benchmarks.voice --help`. Telephones, bridge and
model side are processes of their own. Figures are medians of the runs; a cell that cannot be
filled says why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from graphrag.simulator.twilio_line import LineRefused
from tests.benchmarks.machine import busy, described
from tests.benchmarks.voice_ends import now_us
from tests.benchmarks.voice_line import interruptions
from tests.benchmarks.voice_phones import (
    Dial,
    Phone,
    Seen,
    Talked,
    dialled,
    straight,
    streamed,
    talk,
)
from tests.benchmarks.voice_processes import ROOT, Process, at, median, running
from tests.benchmarks.voice_text import text_rows
from tests.support.loopback_api import loopback_api

PEER_PYTHON = ROOT / ".venv-voice-peers" / "bin" / "python"
SESSION_S = 0.2
P99_AT_MOST_MS = 20.0


@dataclass(kw_only=True)
class Measured:
    """One run of so many calls. Units: milliseconds, of frames as they arrive at the other end."""

    up: list[float]
    down: list[float]
    lost: int
    cpu_ms: float = 0.0
    held: int = 0
    """Bytes of the bridge's process while the calls were held."""
    barge: list[float] = field(default_factory=list[float])
    tools: list[float] = field(default_factory=list[float])


async def measure(
    model: Process,
    dial: Dial,
    calls: int,
    seconds: float,
    *,
    bridge: Process | None = None,
    **plan: Any,
) -> Measured:
    worked = asyncio.get_running_loop().create_future()

    async def begun(since: int) -> None:
        await model.ask(since=since, **plan)
        worked.set_result(asyncio.create_task(_worked(bridge, since, seconds)))

    await model.ask(since=sys.maxsize, **plan)
    talked = await talk(dial, calls, seconds, begun, bridge is None, "begins" in plan)
    cpu, held = await worked.result()
    seen = await model.ask()
    lost = sum(
        max(0, sent - seen["frames"].get(str(call), 0)) for call, sent in talked.sent.items()
    )
    return Measured(
        up=[delay / 1000 for delay in seen["delays"] or _loud(talked.loud, seen["loud"])],
        down=[delay / 1000 for delay in talked.seen.delays],
        lost=lost,
        cpu_ms=cpu * 1000 / calls,
        held=held,
        barge=_reactions(seen["speech"], talked),
        tools=[each / 1000 for each in seen["tools"]],
    )


async def _worked(bridge: Process | None, since: int, seconds: float) -> tuple[float, int]:
    """Return how busy a bridge is, as a share of a core, and what it holds."""
    if bridge is None:
        return 0.0, 0
    await asyncio.sleep((since - now_us()) / 1e6)
    before = bridge.worked_s()
    began = time.monotonic()
    await asyncio.sleep(seconds - 0.2)
    return (bridge.worked_s() - before) / (time.monotonic() - began), bridge.held()


def _loud(sent: Sequence[int], came: Sequence[int]) -> list[int]:
    """Return how long each loud frame took until the first sound of it came."""
    found: list[int] = []
    for when, after in zip(sent, [*sent[1:], sys.maxsize], strict=False):
        first = next((one for one in came if when <= one < after), None)
        found += [] if first is None else [first - when]
    return found


def _reactions(speech: dict[str, list[int]], talked: Talked) -> list[float]:
    """Return how long each `clear` came after the speech that it is for."""
    found: list[float] = []
    for call, times in speech.items():
        clears = iter(talked.clears.get(int(call), ()))
        clear = next(clears, None)
        for began in times:
            while clear is not None and clear < began:
                clear = next(clears, None)
            if clear is not None and clear - began < 300_000:
                found.append((clear - began) / 1000)
    return found


def added(via: Sequence[Measured], direct: Sequence[Measured]) -> str:
    """Return what a bridge adds to a direct connection: p50 and p99 of both ways, medians
    of the runs.
    """
    parts: list[str] = []
    for way in ("up", "down"):
        ours, theirs = ([getattr(one, way) for one in runs] for runs in (via, direct))
        shares = [
            median([at(one, share) for one in ours]) - median([at(one, share) for one in theirs])
            for share in (0.5, 0.99)
        ]
        parts.append(f"{shares[0]:.2f} / {shares[1]:.2f}" if any(ours) else "not measured")
    return f"{parts[0]}, back {parts[1]} ms; {sum(one.lost for one in via)} lost"


def cpu(runs: Sequence[Measured]) -> str:
    return f"{median([one.cpu_ms for one in runs]):.1f} ms"


@dataclass
class Bench:
    """Measures the bridges that run, and writes the rows of the table."""

    given: argparse.Namespace
    model: Process
    bridges: Mapping[str, Process]
    dials: Mapping[str, Dial]
    empty: str
    """Why there is no figure of the peer."""
    rows: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def add(self, what: str, goal: str, cells: Mapping[str, str]) -> None:
        self.rows.append(
            (what, goal, *(cells.get(name, "") for name in ("ours", "relay", "pipecat")))
        )
        print(" | ".join(self.rows[-1]), flush=True)

    async def runs(self, names: Sequence[str], calls: int, **plan: Any) -> list[list[Measured]]:
        """Measure bridges, or "direct", in turn, so many times as is asked."""
        found: list[list[Measured]] = [[] for _ in names]
        for _ in range(self.given.runs):
            for name, runs in zip(names, found, strict=True):
                dial = self.dials.get(name) or straight(self.model.address)
                bridge = self.bridges.get(name)
                more = {"begins": True} if name == "pipecat" else {}
                runs.append(
                    await measure(
                        self.model, dial, calls, self.given.seconds, bridge=bridge, **plan, **more
                    )
                )
        return found

    async def frames(self) -> None:
        """Measure what is added to frames, processor time and memory, at one
        call, ten and fifty.
        """
        names = ["direct", *self.bridges]
        before = (await self.bridges["ours"].ask())["bytes"]
        direct, *found = await self.runs(names, 1)
        cells = {name: added(runs, direct) for name, runs in zip(self.bridges, found, strict=True)}
        goal = "p50 ≤ 0.5, p99 ≤ 2 ms"
        self.add("added delay of a frame p50 / p99, 1 call", goal, {"pipecat": self.empty} | cells)
        _, *found = await self.runs(names, 10)
        cells = {name: cpu(runs) for name, runs in zip(self.bridges, found, strict=True)}
        goal = "≤ 10 ms, ≤ ⅓ of pipecat's"
        self.add(
            "processor time, a call and second, 10 calls", goal, {"pipecat": self.empty} | cells
        )
        names = ["direct", "ours", "relay"]
        direct, *found = await self.runs(names, 50)
        cells = {name: added(runs, direct) for name, runs in zip(names[1:], found, strict=True)}
        self.add(
            "the same delay, 50 calls", "p99 ≤ 5 ms, none lost", cells | {"pipecat": "not tried"}
        )
        cells = {name: cpu(runs) for name, runs in zip(names[1:], found, strict=True)}
        self.add("the same processor time, 50 calls", "≤ 10 ms", cells | {"pipecat": "not tried"})
        held = (median([one.held for one in found[0]]) - before) / 50 / 1e6
        self.add("memory a call", "≤ 1 MB", {"ours": f"{held:.2f} MB"})

    async def at_once(self) -> None:
        cells: dict[str, str] = {}
        for name in ("ours", "relay"):
            cells[name] = "none of 20"
            for calls in range(20, self.given.most + 1, 20):
                one = await measure(
                    self.model, self.dials[name], calls, 4, bridge=self.bridges[name]
                )
                p99 = max(at(one.up, 0.99), at(one.down, 0.99))
                if not p99 <= P99_AT_MOST_MS or one.lost:
                    cells[name] += f" (at {calls}: p99 {p99:.0f} ms, {one.lost} lost)"
                    break
                cells[name] = str(calls)
        self.add("calls at once with p99 ≤ 20 ms", "≥ 100", cells)

    async def reactions(self) -> None:
        """Measure interruptions and tools."""
        cells: dict[str, str] = {}
        for name in ("ours", "relay"):
            [runs] = await self.runs([name], 50, interrupts_s=1.0)
            shares = [median([at(one.barge, share) for one in runs]) for share in (0.5, 0.99)]
            cells[name] = (
                f"{shares[0]:.2f} / {shares[1]:.2f} ms of {sum(len(one.barge) for one in runs)}"
            )
        self.add(
            "speech noticed to clear received p50 / p99, 50 calls", "p50 ≤ 1, p99 ≤ 5 ms", cells
        )
        arguments = json.dumps({"query": "Lakers"})
        plan = {"interrupts_s": 0.5, "tool": "search_nodes", "arguments": arguments}
        [runs] = await self.runs(["ours"], 1, **plan)
        took = [each for one in runs for each in one.tools]
        cell = f"{at(took, 0.99):.1f} ms of {len(took)} (p50 {at(took, 0.5):.1f})"
        self.add(
            "tool called to output sent, search on the NBA graph p99", "≤ 15 ms", {"ours": cell}
        )

    async def greetings(self, times: int = 20) -> None:
        took: list[float] = []
        for _ in range(times):
            phone = Phone(1, Seen(), until=time.monotonic() + 1.2)
            began = now_us()
            await phone.talk(dialled(self.bridges["ours"].address, "fetched"))
            took += [(phone.first_sound - began) / 1000] if phone.first_sound else []
        what = f"webhook to the first sound, session API {SESSION_S * 1000:.0f} ms"
        cell = f"{median(took):.0f} ms (p95 {at(took, 0.95):.0f}; {len(took)} of {times})"
        self.add(what, "≤ 350 ms", {"ours": cell})

    def truncation(self) -> None:
        errors, refused, done = interruptions(10_000)
        cell = f"{at(errors, 0.95):.0f} ms (median {median(errors):.0f})"
        self.add("truncation error p95, 100 ms each way, 20 ms jitter", "≤ 40 ms", {"ours": cell})
        self.add(f"errors of the API in {done} interruptions", "0", {"ours": str(refused)})

    async def faulty(self) -> None:
        """Hold calls whose telephone or model side goes away at any moment; say what is
        left of them.
        """
        bridge = self.bridges["ours"]
        model = self.model
        calls = self.given.faulty
        before = await bridge.ask()
        arguments = json.dumps({"query": "Lakers"})
        await model.ask(interrupts_s=0.4, tool="search_nodes", arguments=arguments, breaks=0.3)
        places = asyncio.Semaphore(25)
        hung = [0, 0]

        async def one(number: int) -> None:
            async with places:
                until = time.monotonic() + 1 + number % 7 / 4
                phone = Phone(number % 9000 + 1, Seen(), until=until)
                talking = asyncio.create_task(phone.talk(dialled(bridge.address, "inline")))
                if number % 3 == 0:
                    await asyncio.sleep(0.3 + number % 11 / 10)
                    if phone.socket is not None:
                        phone.socket.transport.abort()
                try:
                    await asyncio.wait_for(talking, 30)
                except TimeoutError:
                    hung[0] += 1
                except (AssertionError, OSError, LineRefused):
                    hung[1] += 1

        await asyncio.gather(*(one(number) for number in range(calls)))
        for _ in range(60):
            ends: Counter[str] = Counter((await bridge.ask())["calls"])
            if ends["ended"] == ends.total():
                break
            await asyncio.sleep(1)
        await asyncio.sleep(3)
        after = await bridge.ask()
        seen = await model.ask()
        left = Counter[str](after["calls"]) - Counter[str](before["calls"])
        cell = (
            f"{dict(left)}, {hung[0]} hung, {hung[1]} refused, {seen['unanswered']} tool calls unanswered,"
            f" tasks {before['tasks']} → {after['tasks']}, sockets {before['sockets']} → {after['sockets']},"
            f" {seen['open']} open at the model"
        )
        self.add(
            f"{calls} calls with faults", f"0 hung, {calls} ended, nothing left", {"ours": cell}
        )


async def run(given: argparse.Namespace) -> None:
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(running("-m", "tests.benchmarks.voice_ends"))
        api = await stack.enter_async_context(loopback_api())
        api.answers["GET /session"], api.waits_s = {"prompt": "Answer."}, SESSION_S
        bridge = "tests.benchmarks.voice_bridges"
        bridges = {
            "ours": await stack.enter_async_context(
                running("-m", bridge, "ours", model.address, api.url)
            ),
            "relay": await stack.enter_async_context(running("-m", bridge, "relay", model.address)),
        }
        dials = {
            "ours": dialled(bridges["ours"].address, "inline"),
            "relay": streamed(bridges["relay"].address),
        }
        empty = "no .venv-voice-peers"
        if PEER_PYTHON.exists():
            try:
                peer = running(
                    "tests/benchmarks/voice_pipecat.py", model.address, python=str(PEER_PYTHON)
                )
                bridges["pipecat"] = await stack.enter_async_context(peer)
                dials["pipecat"] = streamed(bridges["pipecat"].address)
            except (RuntimeError, TimeoutError) as exc:
                empty = f"did not begin: {exc}"
        bench = Bench(given, model, bridges, dials, empty)
        for name in bridges:  # what is loaded once
            plan = {"begins": True} if name == "pipecat" else {}
            await measure(model, dials[name], 5, 1, bridge=bridges[name], **plan)
        for rows in (bench.frames, bench.at_once, bench.reactions, bench.greetings, bench.faulty):
            try:
                await rows()
            except (
                AssertionError,
                OSError,
                TimeoutError,
                LineRefused,
            ) as exc:  # the other rows are shown
                bench.add(rows.__name__, "", {"ours": f"failed: {exc!r}"[:200]})
        bench.truncation()
        for row in await text_rows(given.seconds, given.runs, given.most):
            bench.add(row.what, row.goal, {"ours": row.figure})
    print("\n| measure | goal | ours | bare relay | pipecat |\n|---|---|---|---|---|")
    for row in bench.rows:
        print(f"| {' | '.join(row)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--most", type=int, default=200, help="calls at once to try")
    parser.add_argument("--faulty", type=int, default=1000)
    parser.add_argument("--loud", action="store_true", help="show what the processes say")
    given = parser.parse_args()
    load = busy()
    print(described(), "" if load is None else f"(cores at work before: {load:.0%})", flush=True)
    asyncio.run(run(given))


if __name__ == "__main__":
    main()
