"""Processes that decide: one dies at a numbered moment, others race; each
function is one process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from datasources.arango import ArangoDatabase, is_arango, parse_address
from datasources.base import Database
from graphrag.approvals import Approvals, Approve, Decision, Person, Reject
from graphrag.approvals.errors import ApprovalError
from tests.contracts.samples import FLOW, WORKSPACE
from tests.support.chosen_database import database_in

_WRITES = ("put", "write", "apply", "delete")


def database_at(where: str) -> Database:
    """Return the database at an address of ArangoDB or in a file."""
    return ArangoDatabase(parse_address(where)) if is_arango(where) else database_in(where)


class Mortal:
    """Passes calls on; the process dies before the write of that number, or after the last one."""

    def __init__(self, inner: Any, count: list[int]) -> None:
        self._inner = inner
        self._count = count

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in _WRITES:
            return found

        async def counted(*args: Any, **more: Any) -> Any:
            if not self._count[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            self._count[0] -= 1
            return await found(*args, **more)

        return counted


async def decide_and_die(where: str, approval_id: str, what: str, writes: str) -> None:
    """Decide, undo or expire; die when so many writes are done, at the latest before saying so."""
    async with database_at(where) as database:
        count = [int(writes)]
        source = Mortal(database.source(WORKSPACE), count)
        records = Mortal(database.records(WORKSPACE), count)
        by = Person("rita", "reviewer", WORKSPACE)
        if what == "expire":
            await Approvals(source, records, clock=lambda: 1 << 50).expire_due(limit=10)
        elif what == "undo":
            await Approvals(source, records).undo(FLOW, approval_id, by=by)
        else:
            decision: Decision = Reject("no") if what == "reject" else Approve()
            await Approvals(source, records).decide(approval_id, decision, by)
        print("unharmed", count[0], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


async def decide_with_others(where: str, who: str, approval_ids: str, decisions: str) -> None:
    """Wait for a line, then take every decision many times at once; print the outcomes."""
    async with database_at(where) as database:
        approvals = Approvals(database.source(WORKSPACE), database.records(WORKSPACE))
        by = Person(who, "reviewer", WORKSPACE)
        print("ready", flush=True)
        sys.stdin.readline()

        async def one(approval_id: str, decision: str) -> str:
            taken: Decision = Reject() if decision == "reject" else Approve()
            try:
                return (await approvals.decide(approval_id, taken, by)).status
            except ApprovalError as exc:
                return type(exc).__name__

        outcomes = await asyncio.gather(
            *(
                one(i, decision)
                for decision in decisions.split(",")
                for i in approval_ids.split(",")
            )
        )
        print(" ".join(outcomes), flush=True)
