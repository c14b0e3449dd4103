"""A LangChain retriever and tools over a nodius-graphrag service. What a tool
proposes, a person decides.

Each takes `url`, `token` and `graph`; without them NODIUS_URL and NODIUS_TOKEN are read. A refusal
or a failure of the service raises `httpx.HTTPStatusError`, of which tools tell the model.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field, SecretStr

CLIENT = "langchain-nodius/0.1.0"


class _Service(BaseModel):
    """Where the service is, and who asks. Units: `timeout` in seconds."""

    url: str = Field(default_factory=lambda: os.environ.get("NODIUS_URL", "http://127.0.0.1:8426"))
    token: SecretStr = Field(default_factory=lambda: SecretStr(os.environ.get("NODIUS_TOKEN", "")))
    graph: str
    timeout: float = 60.0

    def _request(self, method: str, path: str, **sent: Any) -> dict[str, Any]:
        headers = {"X-Nodius-Client": CLIENT}
        if token := self.token.get_secret_value():
            headers["Authorization"] = f"Bearer {token}"
        with httpx.Client(base_url=self.url, headers=headers, timeout=self.timeout) as client:
            answer = client.request(method, path, **sent)
        answer.raise_for_status()
        return answer.json()

    def _retrieval(self, q: str, **options: int) -> dict[str, Any]:
        path = f"/api/graphs/{quote(self.graph, safe='')}/retrieval"
        return self._request("GET", path, params={"q": q, **options})


class NodiusRetriever(_Service, BaseRetriever):
    """Finds the nodes of a graph that a question needs; `k` at most."""

    k: int = Field(default=10, ge=1, le=100)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        found = self._retrieval(query, limit=self.k if k is None else k, budget=0)["documents"]
        facts = ("key", "name", "type", "score", "reasons", "weak")
        return [
            Document(
                id=f"{self.graph}/{one['key']}",
                page_content=one["text"],
                metadata={"graph": self.graph, **{name: one[name] for name in facts}},
            )
            for one in found
        ]


class Asked(BaseModel):
    message: str = Field(description="A question about the graph, or a change of it, in words.")


class _Tool(_Service, BaseTool):
    args_schema: type[BaseModel] = Asked
    handle_tool_error: bool = True

    def _answer(self, message: str) -> str:
        raise NotImplementedError

    def _run(self, message: str) -> str:
        try:
            return self._answer(message)
        except httpx.HTTPStatusError as exc:
            raise ToolException(f"{exc.response.status_code}: {exc.response.text[:500]}") from exc


class NodiusContext(_Tool):
    name: str = "nodius_context"
    description: str = (
        "Read the nodes and edges of the workflow graph that a question needs, as tables."
    )

    def _answer(self, message: str) -> str:
        return self._retrieval(message)["context"]


class NodiusAsk(_Tool):
    name: str = "nodius_ask"
    description: str = "Ask about the graph, or propose a change of it, which a person decides."

    def _answer(self, message: str) -> str:
        body = {"graphKey": self.graph, "message": message}
        said = self._request("POST", "/api/ai/chat", json=body)
        page = f"{self.url.rstrip('/')}/#{urlencode({'graph': self.graph, 'panel': 'review'})}"
        links = [
            f"A person decides: {page}&approval={one['id']}" for one in said.get("approvals", [])
        ]
        return "\n".join([said["message"], *links])
