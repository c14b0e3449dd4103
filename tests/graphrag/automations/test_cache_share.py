"""What a cache saves a run: the real client of Anthropic against a server that caches as theirs does."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

from graphrag.sessions.machine import EndReason
from tests.graphrag.llm.wire import (
    anthropic_provider,
    events,
    message_end,
    message_start,
    streamed,
    tool_block,
)
from tests.support.automations import DAY, HOUR, MONDAY, night_of
from tests.support.scripted_http import Answer, Request, ScriptedServer

TWO = MONDAY + 2 * HOUR
LOOKED_BACK = 20
"""Blocks before a breakpoint at which an earlier one may have ended."""
READS: list[tuple[str, dict[str, Any]]] = [
    ("read_graph_overview", {}),
    ("list_node_edges", {"nodeKey": "root"}),
    ("read_node_detail", {"nodeKey": "fetch-api"}),
    ("search_nodes", {"query": "player"}),
    ("list_available_node_types", {}),
]


class CachingServer:
    """Keeps what stands before each breakpoint, and says of each request how much of it was kept."""

    def __init__(self, steps: list[tuple[str, dict[str, Any]]]) -> None:
        self.steps, self.kept = steps, set[str]()
        self.shares: list[float] = []

    def __call__(self, request: Request) -> Answer:
        body = request.json
        blocks = [*body["tools"], *body["system"]]
        blocks += [{"role": turn["role"], **block} for turn in body["messages"] for block in turn["content"]]
        ends = [place for place, block in enumerate(blocks) if "cache_control" in block]
        plain = [json.dumps({k: v for k, v in block.items() if k != "cache_control"}) for block in blocks]
        before = ["".join(plain[: place + 1]) for place in range(len(plain))]
        looked_at = {place for end in ends for place in range(max(0, end - LOOKED_BACK), end + 1)}
        read = max((len(before[place]) for place in looked_at if before[place] in self.kept), default=0)
        written = len(before[ends[-1]]) - read
        self.kept |= {before[place] for place in ends}
        whole = len(before[-1])
        self.shares.append(read / whole)
        name, arguments = self.steps[len(self.shares) - 1]
        call = tool_block(0, f"t{len(self.shares)}", name, json.dumps(arguments))
        usage = {
            "input_tokens": (whole - read - written) // 4,
            "cache_read_input_tokens": read // 4,
            "cache_creation_input_tokens": written // 4,
        }
        return streamed(events(message_start(**usage), *call, *message_end("tool_use")))


async def test_from_its_second_call_on_a_run_reads_nine_tenths_of_its_prompt_from_the_cache() -> None:
    finish = ("finish_automation", {"outcome": "ok", "report": "Nothing was found."})
    caching = CachingServer([*READS, finish] * 2)
    with ScriptedServer() as server:
        server.play(*[caching] * 2 * (len(READS) + 1))
        async with aclosing(anthropic_provider(server)) as provider, night_of(provider) as night:
            made = await night.automation(only_if_changed=False)
            for day in range(2):
                await night.run_at(TWO + day * DAY)
            runs = [run.session for run in await night.runs(made)]
    steps = len(READS) + 1
    first, second = caching.shares[:steps], caching.shares[steps:]
    prompt = cached = 0
    for run in runs:
        assert run is not None
        assert run.end_reason is EndReason.COMPLETED
        prompt, cached = prompt + run.usage.prompt, cached + run.usage.cached
    later = [*first[1:], *second[1:]]
    shown = ", ".join(f"{share:.1%}" for share in caching.shares)
    print(f"cached of the prompt: {shown}; of both runs {cached / prompt:.1%}")
    assert min(later) >= 0.9
    assert first[0] == 0
    assert second[0] >= 0.9, "nothing in the prompt of a run is of its own, such as the time"
