"""A LlamaIndex retriever over a nodius-graphrag service."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from urllib.parse import quote

import httpx
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

CLIENT = "llama-index-nodius/0.1.0"


class NodiusRetriever(BaseRetriever):
    """Finds the nodes of a graph that a question needs; `similarity_top_k` at most.

    Without `url` and `token`, NODIUS_URL and NODIUS_TOKEN are read. Units: `timeout` in seconds.
    Raises: httpx.HTTPStatusError where the service refuses or fails.
    """

    def __init__(
        self,
        graph: str,
        *,
        url: str | None = None,
        token: str | None = None,
        similarity_top_k: int = 10,
        timeout: float = 60.0,
        **base: Any,
    ) -> None:
        super().__init__(**base)
        self.graph = graph
        self.similarity_top_k = similarity_top_k
        self._timeout = timeout
        self._url = url or os.environ.get("NODIUS_URL", "http://127.0.0.1:8426")
        self._headers = {"X-Nodius-Client": CLIENT}
        if token := token or os.environ.get("NODIUS_TOKEN"):
            self._headers["Authorization"] = f"Bearer {token}"

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        params = {"q": query_bundle.query_str, "limit": self.similarity_top_k, "budget": 0}
        path = f"/api/graphs/{quote(self.graph, safe='')}/retrieval"
        with httpx.Client(
            base_url=self._url, headers=self._headers, timeout=self._timeout
        ) as client:
            answer = client.get(path, params=params)
        answer.raise_for_status()
        return [self._node(document) for document in answer.json()["documents"]]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def _node(self, document: dict[str, Any]) -> NodeWithScore:
        facts = {name: document[name] for name in ("key", "name", "type", "reasons", "weak")}
        made = TextNode(
            id_=f"{self.graph}/{document['key']}",
            text=document["text"],
            metadata={"graph": self.graph, **facts},
            # The text says all of it already.
            excluded_llm_metadata_keys=["graph", *facts],
            excluded_embed_metadata_keys=["graph", *facts],
        )
        return NodeWithScore(node=made, score=document["score"])
