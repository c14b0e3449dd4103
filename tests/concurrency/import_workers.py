"""Imports that are killed: a process that imports a file in children of its own, each ended
at one write.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import orjson

from graphrag.approvals import Approvals, Person, Policy
from graphrag.importers.exchange import import_bytes
from tests.graphrag.importers.helpers import n8n, n8n_node, to
from tests.support.chosen_database import database_in

WORKSPACE = "team"


def document(version: int) -> bytes:
    """Return a file; the second version has more nodes, other settings, and another name
    of the first.
    """
    names = [f"Step {i}" for i in range(12 * version)]
    nodes = [n8n_node(name, parameters={"version": version}) for name in names]
    nodes[0] = n8n_node(f"First {version}", id="id-of-first")
    names[0] = f"First {version}"
    return orjson.dumps(n8n(nodes, {a: {"main": [[to(b)]]} for a, b in pairwise(names)}))


async def import_version(path: Path, version: int | str) -> None:
    async with database_in(path) as database:
        approvals = Approvals(
            database.source(WORKSPACE), database.records(WORKSPACE), policy=Policy.of("asker")
        )
        person = Person("eve", "editor", WORKSPACE)
        await import_bytes(
            approvals, document(int(version)), person, file_name="flow.json", graph_key="flow"
        )
