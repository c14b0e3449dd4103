"""Prints what a server is and how it would run every statement: `python -m tests.support.arango_plans`.

The server is that of ARANGO_URL, else the double, whose plans are guesses from the text.
"""

from __future__ import annotations

import asyncio
from typing import Any

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.database import all_statements, sample_binds
from tests.contracts.samples import make_flow
from tests.support.arango import ArangoServer, WrongServer, running_server


def plans(database: StandardDatabase) -> list[str]:
    """Return a line for each statement: the nodes of its plan, indexes by name."""
    lines: list[str] = []
    for name, statement in all_statements().items():
        try:
            plan: Any = database.aql.explain(statement.text, bind_vars=sample_binds(statement))
        except ArangoServerError as exc:
            lines.append(f"{name:24} refused: error {exc.error_code}")
            continue
        lines.append(f"{name:24} {' '.join(_shown(node) for node in plan['nodes'])}")
    return lines


def _shown(node: dict[str, Any]) -> str:
    names = ",".join(str(index.get("name", "")) for index in node.get("indexes", []))
    kind = str(node["type"]).removesuffix("Node")
    return f"{kind}[{names}]" if names else kind


async def report(server: ArangoServer) -> None:
    name = server.fresh()
    address = parse_address(server.address(name))
    try:
        async with ArangoDatabase(address, prepared=False) as database:
            await database.set_up()
            await make_flow(database)
            for finding in await database.check():
                print(f"{finding.status:8}{finding.name}: {finding.detail}")
            print(*await database.state.connection.run(plans), sep="\n")
    finally:
        server.drop(name)


if __name__ == "__main__":
    try:
        for running in running_server():
            asyncio.run(report(running))
    except WrongServer as exc:
        raise SystemExit(str(exc)) from exc
