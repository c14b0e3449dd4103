"""Vectors after approvals: what changed is embedded and found at once; a failing service spoils nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from numpy.typing import NDArray

from graphrag.approvals import Approve
from graphrag.embed_nodes import embed_nodes
from graphrag.embedders import LocalEmbedder
from graphrag.embeddings import EmbeddingUnreachable
from graphrag.refreshing import Refresher
from graphrag.retriever import Retriever
from tests.contracts.samples import FLOW
from tests.graphrag.approvals.helpers import EDITOR, Bench, a_bench

local = LocalEmbedder()


class Broken:
    """An embedding service that is away, or that never answers."""

    model, dim = local.model, None

    def __init__(self, *, hangs: bool) -> None:
        self._hangs = hangs

    async def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        if self._hangs:
            await asyncio.Event().wait()
        raise EmbeddingUnreachable(provider="p", reason="away")

    async def aclose(self) -> None:
        """Nothing is held open."""


async def digests(bench: Bench) -> dict[str, Any]:
    nodes = await bench.source.get_nodes(FLOW)
    return await bench.source.get_vector_info(FLOW, [node.key for node in nodes])


async def test_an_approved_change_is_embedded_and_retrieved_although_the_question_was_cached() -> None:
    bench = await a_bench()
    await embed_nodes(bench.source, local)
    retriever = Retriever(bench.source, local)
    forgotten: list[str] = []

    def forget(graph_key: str) -> None:
        forgotten.append(graph_key)
        retriever.clear_cache(graph_key)

    refresher = Refresher(bench.source, local, forget=forget)
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Giraffe enclosure"})
    before = await digests(bench)
    await retriever.retrieve(FLOW, "tall animals of the zoo")
    await bench.approvals(on_applied=refresher.applied).decide(approval.id, Approve(), EDITOR)
    after = await digests(bench)
    assert {key for key in after if after[key] != before[key]} == {"b"}
    assert forgotten == [FLOW]
    found = await retriever.retrieve(FLOW, "tall animals of the zoo")
    assert not found.cached
    assert found.nodes[0].node.key == "b"
    undone = await bench.approvals(on_applied=refresher.applied).undo(FLOW, by=EDITOR)
    assert undone.undoes == approval.id
    assert await digests(bench) == before


async def test_a_changed_type_embeds_its_nodes_again() -> None:
    bench = await a_bench()
    await embed_nodes(bench.source, local)
    before = await digests(bench)
    payload = {"mode": "update", "typeKey": "task", "description": "Keeps animals"}
    approval = await bench.propose("configure_node_type", **payload)
    refresher = Refresher(bench.source, local)
    await bench.approvals(on_applied=refresher.applied).decide(approval.id, Approve(), EDITOR)
    types = {node.key: node.type for node in await bench.source.get_nodes(FLOW)}
    after = await digests(bench)
    assert {key for key in after if after[key] != before.get(key)} == {
        k for k, t in types.items() if t == "task"
    }


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_change_stands_when_the_embedding_service_fails(hangs: bool) -> None:
    bench = await a_bench()
    refresher = Refresher(bench.source, Broken(hangs=hangs), at_most_s=0.01)
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Other"})
    decided = await bench.approvals(on_applied=refresher.applied).decide(approval.id, Approve(), EDITOR)
    assert decided.status == "applied"
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert node.data["name"] == "Other"
