"""Reads and writes workflows of an n8n server by its public API, with an API key.

The draft of a workflow is read and written. What runs may be an older version; `has_unpublished`
says so. The API has no lock: of two writers the second wins. Its history of versions tells
afterwards whether a write replaced a version that nobody here had read.
Source: docs.n8n.io/api, and the `openapi.yml` that each server serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from graphrag.connections.document_patch import is_same
from graphrag.connections.editor import (
    Discovery,
    Preflight,
    PushRemark,
    RemoteDocument,
    RemoteWorkflow,
    ServerNotice,
    Unpublished,
    WriteAnswer,
)
from graphrag.connections.errors import EditorFault
from graphrag.connections.n8n_api_facts import ApiFacts, api_facts
from graphrag.connections.n8n_checks import checked_workflow, versions_in_use
from graphrag.connections.n8n_executions import SERVER, failed_runs, failure_of, is_run_of
from graphrag.connections.server_http import ServerAnswer, ServerHttp, answered_reason
from graphrag.importers.json_values import Json, as_dict, as_list, as_text

MAX_VERSIONS = 20
"""Versions since the one that was read that are looked at."""
PAGE = 250
"""Workflows in one page of the list; the server's maximum."""
MAX_PAGES = 40
READ_RIGHTS = ("workflow:list", "workflow:read")
WRITE_RIGHT = "workflow:update"
REQUIRED = ("name", "nodes", "connections")
"""Fields of a workflow that every update holds; others are sent only if they change."""
OPTIONAL = ("description", "pinData", "nodeGroups")
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
        self._api_facts: ApiFacts | None = None
        self._versions_before: list[str] = []

    async def discover(self) -> Discovery:
        answer = await self._http.get("/api/v1/discover")
        if answer.status == 404 and not answer.is_html:  # older than this request
            await self._page("")
            return Discovery(version="", rights=READ_RIGHTS)
        facts = as_dict((as_dict(self._value(answer)) or {}).get("data")) or {}
        scopes = as_list(facts.get("scopes"))
        if scopes is None:
            raise EditorFault("editor_not_there", address=self._http.address, server=SERVER)
        rights = tuple(sorted(filter(None, map(as_text, scopes))))
        return Discovery(
            version="",
            rights=rights,
            missing=tuple(right for right in READ_RIGHTS if right not in rights),
            missing_to_write=() if WRITE_RIGHT in rights else (WRITE_RIGHT,),
        )

    async def workflows(self) -> list[RemoteWorkflow]:
        """Returns all workflows.

        The server's cursor is an offset: a workflow that was deleted between two pages shifts the
        next one. So a workflow that is missing here is asked for by itself before it counts as
        gone.
        """
        listed = map(_listed, await self._items())
        return list({each.workflow_id: each for each in listed if each is not None}.values())

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

    async def preflight(self, read: RemoteDocument, target: Any) -> Preflight:
        facts = await self._facts()
        workflows = [*await self._items(), read.document]
        in_use = await asyncio.to_thread(versions_in_use, workflows)
        problems, warnings, effects = await asyncio.to_thread(
            checked_workflow, read.document, target, in_use, facts.node_fields
        )
        is_published = bool(as_text(read.document.get("activeVersionId")))
        if not facts.node_fields:
            problems = (PushRemark(code="push_api_unknown"),)
        elif is_published and not facts.keeps_published:
            problems = (PushRemark(code="push_published_read_only"), *problems)
        return Preflight(problems=problems, warnings=warnings, effects=effects)

    async def write(self, read: RemoteDocument, target: Any) -> WriteAnswer:
        facts = await self._facts()
        changed = [
            name
            for name in OPTIONAL
            if name in facts.workflow_fields
            and not is_same(read.document.get(name), target.get(name))
        ]
        self._versions_before = await self._history(read.workflow.workflow_id)
        if self._newer(self._versions_before, read):
            return WriteAnswer(is_accepted=False, status=409, is_conflict=True)
        body: Json = {name: target.get(name) for name in (*REQUIRED, *changed)} | {"settings": {}}
        answer = await self._http.send_json(
            "PUT",
            f"/api/v1/workflows/{read.workflow.workflow_id}",
            body,
            params={"publishIfActive": "false"} if facts.keeps_published else None,
        )
        return _write_answer(answer)

    async def documents(self) -> list[Json]:
        """Returns all workflows as the list has them."""
        return await self._items()

    async def create(self, document: Json) -> WriteAnswer:
        body: Json = {name: document.get(name) for name in REQUIRED}
        body["settings"] = {"executionOrder": "v1"}
        return _write_answer(await self._http.send_json("POST", "/api/v1/workflows", body))

    async def unseen_version(self, read: RemoteDocument, target: Any) -> Any | None:
        is_ours_found = False
        for version in self._newer(await self._history(read.workflow.workflow_id), read):
            graph = await self._version(read.workflow.workflow_id, version)
            if is_ours_found:
                return {**read.document, **graph}
            is_ours_found = await asyncio.to_thread(_is_same_graph, graph, target)
        return None

    async def unpublished(self, read: RemoteDocument) -> Unpublished | None:
        live = read.workflow.tokens["activeVersionId"]
        draft = read.workflow.tokens["versionId"]
        if live == draft:
            return None
        workflow_id = read.workflow.workflow_id
        history = await self._history(workflow_id)
        since = history[: history.index(live)] if live in history else history
        if not live:
            return Unpublished(live=None, versions=tuple(since))
        return Unpublished(
            live={**read.document, **await self._version(workflow_id, live)}, versions=tuple(since)
        )

    async def publish(self, read: RemoteDocument) -> WriteAnswer:
        answer = await self._http.send_json(
            "POST",
            f"/api/v1/workflows/{read.workflow.workflow_id}/publish",
            {"versionId": read.workflow.tokens["versionId"]},
        )
        return _write_answer(answer)

    async def failures(
        self, workflow_id: str, tokens: Mapping[str, str], *, since: int, until: int
    ) -> list[ServerNotice]:
        runs = await failed_runs(self._http, workflow_id, since=since, until=until)
        if not runs:
            return []
        version = await self._version(workflow_id, tokens.get("versionId", ""))
        return [failure_of(run) for run in runs if is_run_of(run, version)]

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _facts(self) -> ApiFacts:
        """Returns what the server's API accepts, by its own description."""
        if self._api_facts is None:
            answer = await self._http.get("/api/v1/openapi.yml")
            is_there = answer.status == 200 and not answer.is_html
            self._api_facts = await asyncio.to_thread(api_facts, answer.text if is_there else "")
        return self._api_facts

    async def _version(self, workflow_id: str, version: str) -> Json:
        """Returns the nodes and connections of a stored version."""
        answer = await self._http.get(f"/api/v1/workflows/{workflow_id}/versions/{version}")
        item = as_dict(self._value(answer)) or {}
        return {name: item[name] for name in ("nodes", "connections") if name in item}

    async def _history(self, workflow_id: str) -> list[str]:
        """Returns the versions of a workflow, newest first. Old ones are removed by the server."""
        answer = await self._http.get(f"/api/v1/workflows/{workflow_id}/history")
        items = map(as_dict, as_list((as_dict(self._value(answer)) or {}).get("data")) or [])
        return [version for item in items if (version := as_text((item or {}).get("versionId")))]

    def _newer(self, versions: list[str], read: RemoteDocument) -> list[str]:
        """Returns the versions that are newer than the one read, newest first."""
        base = read.workflow.tokens["versionId"]
        if base in versions:
            return versions[: versions.index(base)][:MAX_VERSIONS]
        known = set(self._versions_before)
        return [version for version in versions if known and version not in known][:MAX_VERSIONS]

    async def _items(self) -> list[Json]:
        """Returns all workflows of the server as its list has them."""
        items: list[Json] = []
        cursor = ""
        for _ in range(MAX_PAGES):
            page = await self._page(cursor)
            items += [item for item in map(as_dict, as_list(page.get("data")) or []) if item]
            cursor = as_text(page.get("nextCursor")) or ""
            if not cursor:
                break
        return items

    async def _page(self, cursor: str) -> Json:
        params = {"limit": str(PAGE), **({"cursor": cursor} if cursor else {})}
        answer = await self._http.get("/api/v1/workflows", params=params)
        page = as_dict(self._value(answer)) or {}
        if as_list(page.get("data")) is None:
            raise EditorFault("editor_not_there", address=self._http.address, server=SERVER)
        return page

    def _value(self, answer: ServerAnswer) -> Any:
        """Returns the JSON of an answer. Raises: EditorFault for any answer but a good one."""
        return self._http.value_of(answer, server=SERVER, right=READ_RIGHTS[1])


def _write_answer(answer: ServerAnswer) -> WriteAnswer:
    is_accepted = answer.status == 200 and not answer.is_html
    reason = "" if is_accepted else answered_reason(answer)
    return WriteAnswer(
        is_accepted=is_accepted, status=answer.status, is_page=answer.is_html, reason=reason
    )


def _is_same_graph(one: Json, other: Json) -> bool:
    return is_same(_graph_of(one), _graph_of(other))


def _graph_of(document: Json) -> Json:
    """Returns the nodes and connections, without the ids of webhooks, which the server adds."""
    nodes = [as_dict(node) or {} for node in as_list(document.get("nodes")) or []]
    return {
        "nodes": [{k: v for k, v in node.items() if k != "webhookId"} for node in nodes],
        "connections": document.get("connections"),
    }


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
