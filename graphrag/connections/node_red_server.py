"""Reads and writes the flows of a Node-RED server by its admin API.

A server has one file of flows, which is one workflow here: its tabs become the sheets of one graph.
Flows are written whole and with the revision that was read, which the server compares: a deployment
by somebody else in between is never replaced. Source: nodered.org/docs/api/admin.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

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
from graphrag.connections.node_red_checks import checked_flows, deleted_nodes
from graphrag.connections.node_red_notices import server_notices
from graphrag.connections.server_http import ServerAnswer, ServerHttp, answered_reason
from graphrag.importers.json_values import Json, as_dict, as_list, as_text

VERSION = {"Node-RED-API-Version": "v2"}
"""Header by which the server adds the revision to its flows."""
SERVER = "Node-RED"
FLOWS = "flows"
"""The id of a server's only workflow."""
CLIENT_ID = "node-red-admin"
LOCKED_OUT = "Too many login attempts"
DEPLOYMENT = {"Node-RED-Deployment-Type": "nodes"}
"""Header by which only the nodes that changed are started anew."""
WRITE_RIGHT = "flows.write"
ANY_WRITE = frozenset(("*", "write", WRITE_RIGHT))
"""Rights by which flows may be deployed."""
MAX_ASKED = 100
"""Deleted nodes that are asked for their credentials; more are taken to have some."""


class NodeRedEditor:
    """A Node-RED server. `key` is a token, or `NAME:PASSWORD` of a user; empty for an open server.

    `name` is what the flows are called; `tabs` are patterns of the tabs that are read, none
    means all.
    """

    def __init__(self, http: ServerHttp, key: str, *, name: str, tabs: Sequence[str] = ()) -> None:
        self._http = http
        self._key = key
        self._name = name
        self._tabs = tabs
        self._token: str | None = None
        self._known_types: frozenset[str] | None = None

    async def discover(self) -> Discovery:
        await self._flows()
        answer = await self._get("/settings")
        if answer.status in (401, 403):  # a token that may read the flows, and nothing else
            return Discovery(version="", rights=("flows.read",), missing=("read",))
        facts = as_dict(self._value(answer)) or {}
        version = as_text(facts.get("version")) or ""
        user = as_dict(facts.get("user"))
        rights = _rights((user or {}).get("permissions"))
        if not rights:  # an open server tells no user, and some servers not what a user may
            return Discovery(version=version, rights=("*",) if user is None else ("read",))
        may_write = not ANY_WRITE.isdisjoint(rights)
        return Discovery(
            version=version,
            rights=rights,
            missing_to_write=() if may_write else (WRITE_RIGHT,),
        )

    async def workflows(self) -> list[RemoteWorkflow]:
        """Returns the server's flows, none where it has not one tab or node yet."""
        flows = await self._flows()
        return [flows.workflow] if flows.document else []

    async def read(self, workflow_id: str) -> RemoteDocument | None:
        flows = await self._flows()
        return flows if workflow_id == FLOWS and flows.document else None

    async def preflight(self, read: RemoteDocument, target: Any) -> Preflight:
        types = await self._types()
        problems, effects = await asyncio.to_thread(checked_flows, read.document, target, types)
        lost: list[PushRemark] = []
        deleted = await asyncio.to_thread(deleted_nodes, read.document, target)
        for number, entry in enumerate(deleted):
            if number >= MAX_ASKED or await self._has_credentials(entry):
                name = as_text(entry.get("name")) or as_text(entry.get("type")) or ""
                lost.append(PushRemark(code="push_deletes_credentials", facts={"node": name}))
        warnings = () if types else (PushRemark(code="push_types_unknown"),)
        return Preflight(problems=problems, warnings=warnings, effects=(*effects, *lost))

    async def write(self, read: RemoteDocument, target: Any) -> WriteAnswer:
        flows = await asyncio.to_thread(_put_back, read.whole, read.document, target)
        body = {"flows": flows, "rev": read.workflow.tokens["rev"]}
        headers = {**await self._headers(), **DEPLOYMENT}
        answer = await self._http.send_json("POST", "/flows", body, headers=headers)
        is_accepted = answer.status == 200 and not answer.is_html
        is_conflict = answer.status == 409
        reason = "" if is_accepted else answered_reason(answer)
        return WriteAnswer(
            is_accepted=is_accepted,
            status=answer.status,
            is_conflict=is_conflict,
            is_page=answer.is_html,
            reason=reason,
        )

    async def unseen_version(self, read: RemoteDocument, target: Any) -> Any | None:  # noqa: ARG002
        return None  # the server refuses a write over a version that was not read

    async def unpublished(self, read: RemoteDocument) -> Unpublished | None:  # noqa: ARG002
        raise EditorFault("editor_no_drafts", address=self._http.address)

    async def publish(self, read: RemoteDocument) -> WriteAnswer:  # noqa: ARG002
        raise EditorFault("editor_no_drafts", address=self._http.address)

    async def notices(self) -> AsyncGenerator[ServerNotice]:
        """Yields what the server tells; ends with EditorFault."""
        if self._token is None:
            self._token = await self._signed_in()
        address = self._http.address
        async with (
            self._http.socket("/comms") as socket,
            aclosing(server_notices(socket, self._token, address)) as notices,
        ):
            async for notice in notices:
                yield notice

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _flows(self) -> RemoteDocument:
        content = as_dict(self._value(await self._get("/flows"))) or {}
        entries = as_list(content.get("flows"))
        if entries is None:
            raise EditorFault("editor_not_there", address=self._http.address, server=SERVER)
        flows = [entry for each in entries if (entry := as_dict(each)) is not None]
        chosen = _of_tabs(flows, self._tabs) if self._tabs else flows
        labels = [as_text(each.get("label")) for each in chosen if each.get("type") == "tab"]
        workflow = RemoteWorkflow(
            workflow_id=FLOWS,
            name=self._name,
            tokens={"rev": as_text(content.get("rev")) or ""},
            labels=tuple(filter(None, labels)),
        )
        return RemoteDocument(workflow=workflow, document=chosen, whole=entries)

    async def _types(self) -> frozenset[str] | None:
        """Returns the types of nodes that the server has, None where the key may not read them."""
        if self._known_types is None:
            answer = await self._get("/nodes")
            if answer.status in (401, 403):
                return None
            sets = map(as_dict, as_list(self._value(answer)) or ())
            self._known_types = frozenset(
                name
                for each in sets
                if each is not None and each.get("enabled") is not False and not each.get("err")
                for name in map(as_text, as_list(each.get("types")) or ())
                if name
            )
        return self._known_types

    async def _has_credentials(self, entry: Json) -> bool:
        kind = re.sub(r"\s+", "-", str(entry.get("type")))  # as its editor writes it
        path = f"/credentials/{quote(kind, safe='')}/{quote(str(entry.get('id')), safe='')}"
        answer = await self._get(path)
        return answer.status != 200 or bool(as_dict(answer.value))

    async def _get(self, path: str) -> ServerAnswer:
        return await self._http.get(path, headers=await self._headers())

    async def _headers(self) -> dict[str, str]:
        if self._token is None:
            self._token = await self._signed_in()
        return {**VERSION, **({"Authorization": f"Bearer {self._token}"} if self._token else {})}

    async def _signed_in(self) -> str:
        """Returns a token, "" for an open server. One try: the server locks out who repeats it."""
        address = self._http.address
        answer = await self._http.get("/auth/login")
        self._http.check_program(answer, SERVER)
        way = as_dict(answer.value) or {}
        user, colon, password = self._key.partition(":")
        if not way:
            return ""
        if not self._key:
            raise EditorFault("editor_needs_key", address=address)
        if not colon:
            return self._key
        if way.get("type") != "credentials":
            raise EditorFault("editor_needs_browser", address=address)
        form = {"client_id": CLIENT_ID, "grant_type": "password", "scope": ""}
        sent = await self._http.post_form(
            "/auth/token", {**form, "username": user, "password": password}
        )
        self._http.check_program(sent, SERVER)
        token = as_text((as_dict(sent.value) or {}).get("access_token"))
        if sent.status == 200 and token:
            return token
        said = as_text((as_dict(sent.value) or {}).get("error_description")) or sent.text
        is_locked = LOCKED_OUT in said
        code = "editor_locked_out" if is_locked else "editor_key_refused"
        raise EditorFault(code, address=address)

    def _value(self, answer: ServerAnswer) -> Any:
        """Returns the JSON of an answer. Raises: EditorFault for any answer but a good one."""
        refusal = "editor_key_refused" if self._key else "editor_needs_key"
        return self._http.value_of(answer, server=SERVER, right="flows.read", refusal=refusal)


def _rights(permissions: Any) -> tuple[str, ...]:
    """Returns the rights of a user, which are told as one word or as several."""
    several = as_list(permissions)
    return tuple(filter(None, map(as_text, several if several is not None else [permissions])))


def _of_tabs(flows: Sequence[Json], patterns: Sequence[str]) -> list[Json]:
    """Returns the entries of the tabs whose label matches, with the subflows and settings nodes,
    which belong to no tab.
    """
    tabs = {
        entry.get("id")
        for entry in flows
        if entry.get("type") == "tab"
        and any(fnmatchcase(as_text(entry.get("label")) or "", pattern) for pattern in patterns)
    }
    subflows = {entry.get("id") for entry in flows if entry.get("type") == "subflow"}
    kept = tabs | subflows
    return [
        entry
        for entry in flows
        if (entry.get("type") == "tab" and entry.get("id") in tabs)
        or (entry.get("type") != "tab" and ("z" not in entry or entry.get("z") in kept))
    ]


def _put_back(whole: Sequence[Any], part: Sequence[Json], target: Sequence[Json]) -> list[Any]:
    """Returns all flows of the server with `target` in place of the chosen `part` of them.

    The order of the server stays; new entries follow the entry that is before them in `target`.
    """
    chosen = {id(entry) for entry in part}
    later = {as_text(entry.get("id")): entry for entry in target}
    flows: list[Any] = []
    for entry in whole:
        if id(entry) not in chosen:
            flows.append(entry)
        elif (kept := later.get(as_text(entry.get("id")))) is not None:
            flows.append(kept)
    places = {id(entry): place for place, entry in enumerate(flows)}
    last = -1
    new: list[tuple[int, Json]] = []
    for entry in target:
        if id(entry) in places:
            last = places[id(entry)]
        else:
            new.append((last + 1, entry))
    for shift, (place, entry) in enumerate(new):
        flows.insert(place + shift, entry)
    return flows
