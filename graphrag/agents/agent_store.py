"""Stores agents with their last versions; every change is a compare-and-set.

Decision: a version is a record of its own, written with the agent's record in one transaction. A
list of agents reads no documents, and a kill during `put` keeps the earlier version.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, final

import orjson
from pydantic import Field

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict
from datasources.types import Document, parse_document
from graphrag.agents import errors
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.agents.voice_fields import VoiceEngine
from graphrag.leases import now_ms
from graphrag.roles import Person
from graphrag.stored_records import change_record, check_version, readable
from tools.http.problems import DocumentProblem

log = logging.getLogger(__name__)

KIND: Final = "agent"
VERSION_KIND: Final = "agent_version"
SCHEMA_VERSION: Final = 1
KEPT_VERSIONS: Final = 20
MAX_AGENTS: Final = 2_000
MAX_DOCUMENT_BYTES: Final = 256 * 1024
_TRIES: Final = 5

Desired = Literal["running", "stopped"]


@final
class AgentVersion(Document):
    """An entry in a list of versions. `fingerprint`: of the document and its variables."""

    version: int
    created_time: int
    user_id: str
    fingerprint: str
    size: int = 0


@final
class AgentCheck(Document):
    """The result of the last check of an agent."""

    version: int
    ok: bool
    time: int
    problems: tuple[DocumentProblem, ...] = ()


@final
class StoredAgent(Document):
    """An agent without its documents. `version`: the current one; `latest`: the highest number.

    `source`: the list that the agent is synchronised with; `stopped_by_list`: it was removed from
    it. `model_failed_time`, `model_error`: time and text of the model's last failure.
    `record_version`: compared by a change.
    """

    agent_id: str
    name: str = ""
    type: str = "general"
    channels: tuple[str, ...] = ()
    engine: VoiceEngine = "realtime"
    graphs: tuple[str, ...] = ()
    opening: str | None = None
    desired: Desired = "stopped"
    version: int
    latest: int
    versions: tuple[AgentVersion, ...]
    check: AgentCheck | None = None
    source: str | None = None
    stopped_by_list: bool = False
    model_failed_time: int = 0
    model_error: ModelRefusal | None = None
    created_time: int = 0
    updated_time: int = 0
    schema_version: int = SCHEMA_VERSION
    record_version: str = Field(default="", exclude=True)

    @property
    def current(self) -> AgentVersion:
        return next(each for each in self.versions if each.version == self.version)

    def has_version(self, version: int) -> bool:
        return any(each.version == version for each in self.versions)


@final
class AgentDocumentVersion(Document):
    """A complete version: the resolved document and its variables."""

    agent_id: str
    version: int
    document: dict[str, Any]
    variables: dict[str, str] = Field(default_factory=dict[str, str])


@final
class Agents:
    """The agents of one workspace. `clock` returns milliseconds since 1970."""

    def __init__(
        self, records: RecordStore, workspace: str, *, clock: Callable[[], int] = now_ms
    ) -> None:
        self.records = records
        self.workspace = workspace
        self.clock = clock

    async def get(self, agent_id: str) -> StoredAgent:
        """Raises: AgentNotFound, BadDocument."""
        found = await self.find(agent_id)
        if found is None:
            raise errors.AgentNotFound(agent_id=agent_id)
        return found

    async def find(self, agent_id: str) -> StoredAgent | None:
        """Returns an agent, or None. Raises: BadDocument."""
        record = await self.records.get(KIND, agent_id)
        return None if record is None else _read(record)

    async def list(
        self, *, desired: Desired | None = None, limit: int = MAX_AGENTS
    ) -> list[StoredAgent]:
        """Returns agents by id; unreadable ones are left out."""
        found = await self.records.query(
            KIND, {} if desired is None else {"desired": desired}, limit=limit
        )
        return await asyncio.to_thread(readable, found, _read)

    async def version(self, agent_id: str, version: int) -> AgentDocumentVersion:
        """Returns a stored version. Raises: AgentNotFound, BadDocument."""
        record = await self.records.get(VERSION_KIND, _version_key(agent_id, version))
        if record is None:
            raise errors.AgentNotFound(agent_id=agent_id, version=version)
        return parse_document(
            AgentDocumentVersion, {"_key": record.key, **record.data}, VERSION_KIND
        )

    async def put(
        self,
        document: Mapping[str, Any],
        expected_version: int | None,
        person: Person,
        variables: Mapping[str, str] | None = None,
        *,
        source: str | None = None,
    ) -> StoredAgent:
        """Stores a checked document as the current version, unless it is equal to that.

        `expected_version` None replaces any version, 0 requires that there is none. Raises:
        AgentChanged, AgentTooLarge, TooManyAgents, BadDocument.
        """
        agent_id = str(document["agent"]["id"])
        body = _body(document, variables or {})
        actual = 0
        for _ in range(_TRIES):
            stored = await self.find(agent_id)
            actual = 0 if stored is None else stored.version
            if expected_version not in (None, actual):
                raise errors.AgentChanged(agent_id=agent_id, version=actual)
            if (
                stored is None
                and len(await self.records.query(KIND, limit=MAX_AGENTS)) >= MAX_AGENTS
            ):
                raise errors.TooManyAgents(limit=MAX_AGENTS)
            if stored is not None and stored.current.fingerprint == _hash(body):
                return stored
            added = AgentVersion(
                version=1 if stored is None else stored.latest + 1,
                created_time=self.clock(),
                user_id=person.user_id,
                fingerprint=_hash(body),
                size=len(body),
            )
            changed = _with_version(stored, added, document, source)
            kept = AgentDocumentVersion(
                agent_id=agent_id,
                version=added.version,
                document=dict(document),
                variables=dict(variables or {}),
            )
            if await self._write(stored, changed, kept):
                return await self.get(agent_id)
        raise errors.AgentChanged(agent_id=agent_id, version=actual)

    async def change(
        self, agent_id: str, change: Callable[[StoredAgent], StoredAgent]
    ) -> StoredAgent:
        """Applies `change` to an agent and stores it, again if it was changed meanwhile.

        Raises: AgentNotFound, AgentChanged, BadDocument, and the errors of `change`.
        """

        def changed(record: Record | None) -> Mapping[str, Any] | None:
            if record is None:
                raise errors.AgentNotFound(agent_id=agent_id)
            stored = _read(record)
            new = change(stored)
            return None if new is stored else _data(new)

        try:
            record = await change_record(self.records, KIND, agent_id, changed)
        except RecordConflict as exc:
            raise errors.AgentChanged(
                agent_id=agent_id, version=(await self.get(agent_id)).version
            ) from exc
        assert record is not None
        return _read(record)

    async def rollback(self, agent_id: str, version: int) -> StoredAgent:
        """Makes a stored version the current one. Raises: AgentNotFound, AgentChanged,
        BadDocument.
        """
        kept = await self.version(agent_id, version)
        facts = _facts(kept.document)

        def back(stored: StoredAgent) -> StoredAgent:
            if not stored.has_version(version):
                raise errors.AgentNotFound(agent_id=agent_id, version=version)
            if stored.version == version:
                return stored
            update = {"version": version, "check": None, "updated_time": self.clock(), **facts}
            return stored.model_copy(update=update)

        return await self.change(agent_id, back)

    async def delete(self, agent_id: str) -> None:
        """Deletes a stopped agent with its versions.

        Raises: AgentNotFound, AgentStateRefused, AgentChanged.
        """
        stored = await self.get(agent_id)
        if stored.desired != "stopped":
            raise errors.AgentStateRefused(agent_id=agent_id, state=stored.desired, asked="delete")
        writes = [
            RecordWrite(kind=KIND, key=agent_id, data=None, expected_version=stored.record_version)
        ]
        for each in stored.versions:
            writes += await self._removal(agent_id, each.version)
        try:
            await self.records.write(writes)
        except RecordConflict as exc:
            raise errors.AgentChanged(agent_id=agent_id, version=stored.version) from exc

    async def _write(
        self, stored: StoredAgent | None, changed: StoredAgent, added: AgentDocumentVersion
    ) -> bool:
        """Writes an agent with its new version, and drops the oldest. Returns False if it was
        changed.
        """
        expected = stored.record_version if stored else None
        key = _version_key(added.agent_id, added.version)
        document = added.model_dump(by_alias=True)
        writes = [
            RecordWrite(
                kind=KIND, key=added.agent_id, data=_data(changed), expected_version=expected
            ),
            RecordWrite(kind=VERSION_KIND, key=key, data=document, expected_version=None),
        ]
        for each in stored.versions if stored else ():
            if not changed.has_version(each.version):
                writes += await self._removal(added.agent_id, each.version)
        try:
            await self.records.write(writes)
        except RecordConflict:
            return False
        return True

    async def _removal(self, agent_id: str, version: int) -> list[RecordWrite]:
        key = _version_key(agent_id, version)
        record = await self.records.get(VERSION_KIND, key)
        if record is None:
            return []
        return [
            RecordWrite(
                kind=VERSION_KIND, key=key, data=None, expected_version=record.version or ""
            )
        ]


def fingerprint(document: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """Returns a hash of a document and its variables. Raises: AgentTooLarge."""
    return _hash(_body(document, variables))


def _with_version(
    stored: StoredAgent | None, added: AgentVersion, document: Mapping[str, Any], source: str | None
) -> StoredAgent:
    facts: dict[str, Any] = {
        **_facts(document),
        "version": added.version,
        "latest": added.version,
        "versions": (*(stored.versions[-(KEPT_VERSIONS - 1) :] if stored else ()), added),
        "updated_time": added.created_time,
        "check": None,
        **({} if source is None else {"source": source}),
    }
    if stored is not None:
        return stored.model_copy(update=facts)
    return StoredAgent(agent_id=document["agent"]["id"], created_time=added.created_time, **facts)


def _facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a document that a list shows."""
    about = document["agent"]
    chat = document.get("chat", {})
    return {
        "name": str(about.get("name", "")),
        "type": str(about.get("type", "general")),
        "channels": tuple(document.get("channels", ("chat", "voice"))),
        "engine": document.get("voice", {}).get("engine", "realtime"),
        "graphs": tuple(document.get("graphs", ())),
        "opening": chat.get("opening"),
    }


def _body(document: Mapping[str, Any], variables: Mapping[str, str]) -> bytes:
    body = orjson.dumps([document, variables], option=orjson.OPT_SORT_KEYS)
    if len(body) > 2 * MAX_DOCUMENT_BYTES:
        raise errors.AgentTooLarge(size=len(body), limit=2 * MAX_DOCUMENT_BYTES)
    return body


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def _version_key(agent_id: str, version: int) -> str:
    return f"{agent_id}/{version}"


def _data(agent: StoredAgent) -> dict[str, Any]:
    return agent.model_dump(by_alias=True, exclude_none=True)


def _read(record: Record) -> StoredAgent:
    check_version(record, SCHEMA_VERSION)
    agent = parse_document(StoredAgent, {"_key": record.key, **record.data}, KIND)
    return agent.model_copy(update={"record_version": record.version or ""})
