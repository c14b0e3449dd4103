"""What declarative agents cost: a document checked, a body, a condition, a path, a list
kept in step.

Run: `make bench-agents`, or `python -m tests.benchmarks.agents --help`. Each figure is the median
of three runs; those of a document's parts are of processor time, that of a list is of the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datasources.sqlite import SqliteDatabase
from graphrag.agents.document_check import check_document
from mock_data import load_json
from tests.benchmarks.machine import busy, described
from tests.graphrag.agents.managing import ListApi, ManagerCase
from tools.http.expressions import parse_expression
from tools.http.json_paths import parse_path
from tools.http.scope import ConversationValues
from tools.http.value_tree import parse_tree

RUNS = 3
CONDITION = (
    "not ctx.order_placed and not ctx.reservation_placed and not ctx.message_left and ctx.had_conversation"
    " and pre.target_order.status not in ['pending', 'confirmed']"
)


def field(number: int) -> str:
    return f"{{{{args.field_{number} | default(ctx.field_{number})}}}}"


def document_of(tools: int, fields: int) -> str:
    """Return a document with so many tools, each with a declaration, a step and so many fields."""
    document = load_json("agents/catalogue.json")
    declaration = {
        "type": "function",
        "description": "Does something with an order.",
        "parameters": {
            "type": "object",
            "properties": {
                f"field_{n}": {"type": "string", "maxLength": 200} for n in range(fields)
            },
            "required": ["field_0"],
        },
    }
    tool = {
        "type": "http",
        "method": "POST",
        "url": "{{base_url}}/things/{{args.field_0}}",
        "pre_steps": [
            {
                "url": "{{base_url}}/orders",
                "extract": {"target_order": "$.orders[?(@.number == {{args.field_1}})]"},
                "fail_if": "target_order == null or target_order.status not in ['pending']",
                "fail_return": {"success": False},
            }
        ],
        "body": {f"field_{n}": field(n) for n in range(fields)},
        "success_if": "$.ok == true and status < 300",
        "store_in_ctx": {"order_id": "$.id"},
        "on_success": {"return": {"success": True, "order": "$.id", "note": "{{ctx.note}}"}},
    }
    document["tools"] = {f"tool_{n}": tool for n in range(tools)}
    declared = [{**declaration, "name": f"tool_{n}"} for n in range(tools)]
    document["session"] = {
        "mode": "inline",
        "instructions": "You are {{agent.name}}.",
        "tools": declared,
    }
    return json.dumps(document)


def timed(work: Callable[[], Any], times: int) -> float:
    """Return the median of RUNS runs. Units: microseconds of one `work`."""
    took: list[float] = []
    for _ in range(RUNS):
        began = time.process_time()
        for _ in range(times):
            work()
        took.append((time.process_time() - began) / times * 1e6)
    return statistics.median(took)


def values() -> tuple[Any, Any]:
    """Return a scope, and a response of 200 orders."""
    response = {
        "ok": True,
        "orders": [{"number": n, "id": f"id-{n}", "status": "done"} for n in range(200)],
    }
    known = ConversationValues(
        agent={"id": "bench"}, ctx={f"field_{n}": n for n in range(20)} | {"had_conversation": True}
    )
    args = {f"field_{n}": "x" * 20 for n in range(0, 20, 2)} | {"number": 199}
    pre = {"target_order": {"status": "done"}}
    return known.scope(1_736_960_400_000, args=args, pre=pre, response=response), response


async def sync_seconds(agents: int) -> tuple[float, float]:
    """Return how long a list's first round takes, and one in which nothing
    changed. Units: seconds.
    """
    template = {
        "version": "2.0",
        "agent": {"id": "shop-${ID}", "name": "${NAME}"},
        "session": {"mode": "inline", "instructions": "You answer for ${NAME}.", "tools": []},
    }
    listing = {
        "list": {"url": "https://api.example.com/customers", "items": "$.items"},
        "template": "template.json",
        "variables": {"ID": "$.id", "NAME": "$.name"},
        "id": "$.id",
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "template.json").write_text(json.dumps(template))
        (folder / "list.json").write_text(json.dumps(listing))
        async with SqliteDatabase(folder / "agents.db") as database:
            items = [{"id": str(n), "name": f"Shop {n}"} for n in range(agents)]
            case = ManagerCase(database, api=ListApi(answer={"items": items}))
            manager = case.manager()
            took: list[float] = []
            for _ in range(1 + RUNS):
                began = time.perf_counter()
                report = await manager.lists.run(folder / "list.json")
                took.append(time.perf_counter() - began)
                assert report.error is None, report
            assert report.unchanged == agents, report
            await manager.aclose()
    return took[0], statistics.median(took[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=60)
    parser.add_argument("--agents", type=int, default=500)
    given = parser.parse_args()
    load = busy()
    print(described(), "" if load is None else f"(cores at work before: {load:.0%})")

    for fields in (8, 20):
        text = document_of(given.tools, fields)
        checked = check_document(text)
        assert checked.errors == (), checked.errors
        milliseconds = timed(partial(check_document, text), 5) / 1000
        size = f"{given.tools} tools with {fields} fields, {len(text) // 1000} kB"
        print(f"document of {size}, loaded and checked: {milliseconds:.1f} ms")

    scope, response = values()
    body = {f"field_{n}": field(n) for n in range(20)}
    tree = parse_tree(body)
    condition = parse_expression(CONDITION)
    fixed = parse_path("$.orders[0].id")
    sought = parse_path("$.orders[?(@.number == {{args.number}})].id")
    assert len(tree.render(scope, drop_null=True)) == 20
    assert condition.holds(scope)
    assert sought.first(response, scope) == "id-199"
    rows = [
        ("body of 20 fields", timed(lambda: tree.render(scope, drop_null=True), 5000)),
        (
            f"expression of {len(CONDITION)} characters",
            timed(lambda: condition.holds(scope), 20000),
        ),
        ("JSONPath to one member", timed(lambda: fixed.first(response, scope), 5000)),
        (
            "JSONPath with an argument, the last of 200 orders",
            timed(lambda: sought.first(response, scope), 50),
        ),
    ]
    for what, microseconds in rows:
        print(f"{what}: {microseconds:.1f} µs")

    first, unchanged = asyncio.run(sync_seconds(given.agents))
    print(
        f"sync of {given.agents} agents: first round {first:.2f} s, with nothing changed {unchanged:.2f} s"
    )


if __name__ == "__main__":
    main()
