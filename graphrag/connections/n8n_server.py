"""Reads workflows of an n8n server by its public API, with an API key.

The draft of a workflow is read. What runs may be an older version; `has_unpublished` says so.
Source: docs.n8n.io/api, and the `openapi.yml` that each server serves.
"""

from __future__ import annotations

from typing import Any

from graphrag.connections.editor import Discovery, RemoteDocument, RemoteWorkflow
from graphrag.connections.errors import EditorFault
from graphrag.connections.server_http import ServerAnswer, ServerHttp
from graphrag.importers.json_values import Json, as_dict, as_list, as_text

PAGE = 250
"""Workflows in one page of the list; the server's maximum."""
MAX_PAGES = 40
READ_RIGHTS = ("workflow:list", "workflow:read")
_PERSONAL = (
    "shared",
    "ownedBy",
    "homeProject",
    "sharedWithProjects",
    "activeVersion",
    "usedCredentials",
)
"""Fields of an answer that are left out: names and e-mail addresses of people, and a second copy of
the workflow as it runs."""  # fmt: skip


class N8nEditor:
    """An n8n server, seen with one API key."""

    def __init__(self, http: ServerHttp) -> None:
        self._http = http

    async def discover(self) -> Discovery:
        answer = await self._http.get("/api/v1/discover")
        if answer.status == 404 and not answer.is_html:  # older than this request
            await self._page("")
            return Discovery(version="", rights=READ_RIGHTS)
        facts = as_dict((as_dict(self._value(answer)) or {}).get("data")) or {}
        rights = tuple(sorted(filter(None, map(as_text, as_list(facts.get("scopes")) or []))))
        missing = tuple(right for right in READ_RIGHTS if right not in rights)
        return Discovery(version="", rights=rights, missing=missing)

    async def workflows(self) -> list[RemoteWorkflow]:
        """Returns all workflows.

        The server's cursor is an offset: a workflow that was deleted between two pages shifts the
        next one. So a workflow that is missing here is asked for by itself before it counts as
        gone.
        """
        workflows: dict[str, RemoteWorkflow] = {}
        cursor = ""
        for _ in range(MAX_PAGES):
            page = await self._page(cursor)
            for item in as_list(page.get("data")) or []:
                workflow = _listed(as_dict(item) or {})
                if workflow is not None:
                    workflows[workflow.workflow_id] = workflow
            cursor = as_text(page.get("nextCursor")) or ""
            if not cursor:
                break
        return list(workflows.values())

    async def read(self, workflow_id: str) -> RemoteDocument | None:
        answer = await self._http.get(f"/api/v1/workflows/{workflow_id}")
        if answer.status == 404 and not answer.is_html:
            return None
        item = as_dict(self._value(answer)) or {}
        workflow = _listed(item)
        if workflow is None:
            raise EditorFault("editor_unreadable", address=self._http.address)
        kept = {name: value for name, value in item.items() if name not in _PERSONAL}
        return RemoteDocument(workflow=workflow, document=kept)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _page(self, cursor: str) -> Json:
        params = {"limit": str(PAGE), **({"cursor": cursor} if cursor else {})}
        answer = await self._http.get("/api/v1/workflows", params=params)
        return as_dict(self._value(answer)) or {}

    def _value(self, answer: ServerAnswer) -> Any:
        """Returns the JSON of an answer. Raises: EditorFault for any answer but a good one."""
        return self._http.value_of(answer, server="n8n", right=READ_RIGHTS[1])


def _listed(item: Json) -> RemoteWorkflow | None:
    """Returns a workflow of the list, None for an entry without an id."""
    workflow_id = as_text(item.get("id"))
    if not workflow_id:
        return None
    labels = [as_text((as_dict(tag) or {}).get("name")) for tag in as_list(item.get("tags")) or []]
    draft = as_text(item.get("versionId")) or ""
    live = as_text(item.get("activeVersionId")) or ""
    return RemoteWorkflow(
        workflow_id=workflow_id,
        name=as_text(item.get("name")) or workflow_id,
        tokens={
            "updatedAt": as_text(item.get("updatedAt")) or "",
            "versionId": draft,
            "activeVersionId": live,
            "tags": ",".join(sorted(filter(None, labels))),
            "isArchived": str(item.get("isArchived") is True),
        },
        labels=tuple(filter(None, labels)),
        is_archived=item.get("isArchived") is True,
        has_unpublished=bool(live) and live != draft,
    )
