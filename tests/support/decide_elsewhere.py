"""Decides proposals of a database file from a process of its own: approves the first,
rejects the rest.
"""

from __future__ import annotations

import asyncio
import sys

from graphrag.approvals import Approvals, Approve, Person, Reject
from tests.support.chosen_database import database_in

REVIEWER = Person("elsewhere", "reviewer", "default")


async def main(path: str, first: str, *others: str) -> None:
    async with database_in(path) as database:
        approvals = Approvals(database.source("default"), database.records("default"))
        await approvals.decide(first, Approve(), REVIEWER)
        for approval_id in others:
            await approvals.decide(approval_id, Reject("not today"), REVIEWER)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
