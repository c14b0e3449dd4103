"""A graph with a thread that proposes, people of every role, and a clock that stands still."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import orjson

from datasources.base import Database
from datasources.types import Mutation, NodeTypeConfig
from graphrag.approvals import Approval, Approvals, Person, Policy
from tests.contracts.samples import (
    FLOW,
    WORKSPACE,
    a_node,
    a_type,
    a_vector,
    an_edge,
    make_flow,
    snapshot,
)
from tests.support.agents import an_ask
from tests.support.chosen_database import fresh_database
from tests.support.clock import Clock

VIEWER = Person("vera", "viewer", WORKSPACE)
EDITOR = Person("ed", "editor", WORKSPACE)
OTHER_EDITOR = Person("eda", "editor", WORKSPACE)
REVIEWER = Person("rita", "reviewer", WORKSPACE)
ADMIN = Person("ada", "admin", WORKSPACE)
STRANGER = Person("sam", "admin", "globex")


@dataclass
class Bench:
    """A database with the sample graph, and its approvals."""

    database: Database
    clock: Clock = field(default_factory=Clock)
    policy: Policy = field(default_factory=Policy)
    calls: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def source(self) -> Any:
        return self.database.source(WORKSPACE)

    @property
    def records(self) -> Any:
        return self.database.records(WORKSPACE)

    def approvals(self, **options: Any) -> Approvals:
        return Approvals(self.source, self.records, policy=self.policy, clock=self.clock, **options)

    async def propose(
        self, kind: str, *, thread: str = "t1", by: Person = EDITOR, **payload: Any
    ) -> Approval:
        return await self.approvals().propose(
            {"type": kind, "payload": payload},
            an_ask(
                FLOW,
                by,
                thread_id=thread,
                tool_call_id=f"call-{next(self.calls)}",
                reason="because",
            ),
        )

    async def rename(self, key: str, name: str, **more: Any) -> None:
        """Change a node behind the proposals' back."""
        (node,) = await self.source.get_nodes_by_key(FLOW, [key])
        await self.source.apply(
            Mutation(
                graph_key=FLOW, put_nodes=[node.replace(data={**node.data, "name": name}, **more)]
            )
        )

    async def state(self) -> dict[str, Any]:
        """Return all that can be seen of the graph, but for its revision and the time of
        its last change.
        """
        found = await snapshot(self.source)
        for moving in ("revision", "lastUpdatedTime"):
            found["graph"].pop(moving, None)
        found["links"] = [list(link) for link in found["links"]]
        found["vectors"] = {key: repr(vector) for key, vector in found["vectors"].items()}
        return orjson.loads(orjson.dumps(found))

    async def stored_bytes(self) -> bytes:
        """Return the same as it is stored: fields in their order."""
        return orjson.dumps(await self.state())

    async def revision(self) -> int:
        return (await self.source.get_graph(FLOW)).revision


def with_handles(config: NodeTypeConfig) -> NodeTypeConfig:
    handles = a_node("x").to_document()["handles"]
    return config.replace(node={**config.node.to_document(), "handles": handles})


async def a_bench(database: Database | None = None, **options: Any) -> Bench:
    bench = Bench(database=database or await fresh_database(), **options)
    source = await make_flow(bench.database)
    types = [with_handles(a_type("task")), with_handles(a_type("log"))]
    vectors = [a_vector(key, 1.0, float(i), name=(0.5, float(i))) for i, key in enumerate("abcd")]
    await source.apply(Mutation(graph_key=FLOW, put_configs=types, put_vectors=vectors))
    return bench


__all__ = ["FLOW", "WORKSPACE", "a_bench", "a_node", "an_edge"]
