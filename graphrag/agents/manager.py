"""The agents of a workspace: which run, what is wrong with those that do not, their compiled documents.

Decision: an agent's state is never stored. It follows from what is: whether it should run, how its current
version was found when it was last looked at, and which conversations are open. So any number of servers, and
the command line, agree on it, and a kill leaves none in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol

import orjson

from graphrag.agents.activity import ActivityReader, AgentActivity
from graphrag.agents.agent_store import AgentCheck, AgentDocumentVersion, Agents, StoredAgent
from graphrag.agents.agent_view import AgentView, State, runs, state_from, view_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.document_check import WARNINGS, CheckedDocument, check_document
from graphrag.agents.errors import (
    AgentNotFound,
    AgentNotRunning,
    AgentStateRefused,
    AgentTooLarge,
    InvalidAgent,
)
from graphrag.agents.kept_agents import AgentClients, CompiledDocuments
from graphrag.agents.loading import MAX_BYTES, read_document
from graphrag.agents.world import World, check_variables, check_world
from graphrag.roles import Person
from tools.http.executor import HttpExecutor, OnTool
from tools.http.fetch import HttpClient
from tools.http.problems import DocumentProblem

log = logging.getLogger(__name__)


LOOK_MS: Final = 60_000
"""An agent that failed, or runs, is looked at again after so long."""
_LIST_MS: Final = 15_000
_LOOKED_AT_ONCE: Final = 50
_STORED_PROBLEMS: Final = 20


class EndsConversations(Protocol):
    """Ends the open conversations of an agent."""

    async def end_all_of(self, agent_id: str) -> Any: ...


class KeepsInStep(Protocol):
    """Keeps agents in step with lists."""

    def tick(self, now: int) -> None: ...

    async def reports(self) -> list[dict[str, Any]]: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSetting:
    """What the agents of a workspace work with."""

    world: World
    new_client: Callable[[], HttpClient]
    new_executor: Callable[[HttpClient], HttpExecutor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A document that was stored. `changed`: it was not the current one already."""

    agent: StoredAgent
    changed: bool
    warnings: tuple[DocumentProblem, ...]


class AgentManager:
    """Starts and stops the agents of one workspace. Any server, and the command line, may have one."""

    def __init__(self, agents: Agents, setting: AgentSetting) -> None:
        self.agents, self.setting = agents, setting
        self.endings: EndsConversations | None = None
        self.lists: KeepsInStep | None = None
        self.on_tool: OnTool | None = None
        self.activity = ActivityReader(agents.records, agents.clock)
        self.clients = AgentClients(setting.new_client, setting.new_executor, agents.clock)
        self._compiled = CompiledDocuments()
        self._looked: dict[str, tuple[int, int]] = {}
        self._listed_time = 0

    # -- documents

    async def check(
        self,
        source: str | bytes | Mapping[str, Any],
        variables: Mapping[str, str] | None = None,
        *,
        base_url: str | None = None,
        agent_id: str | None = None,
    ) -> CheckedDocument:
        """Return what is wrong with a document, also with the world it needs. Nothing is stored."""
        checked = await self._checked(source, variables, base_url, agent_id)
        if checked.agent is None:
            return checked
        found = await check_world(checked.agent, self.setting.world)
        return replace(
            checked,
            errors=(*checked.errors, *_errors(found)),
            warnings=(*checked.warnings, *(each for each in found if each.code in WARNINGS)),
        )

    async def apply(
        self,
        source: str | bytes | Mapping[str, Any],
        person: Person,
        *,
        variables: Mapping[str, str] | None = None,
        base_url: str | None = None,
        agent_id: str | None = None,
        expected_version: int | None = None,
        list_name: str | None = None,
    ) -> Applied:
        """Store a valid document as the current version; where it runs, new conversations have it at once.

        Raises: InvalidAgent, AgentChanged, AgentTooLarge, TooManyAgents.
        """
        checked = await self._checked(source, variables, base_url, agent_id)
        document = checked.resolved
        if document is None and any(each.code == "too_large" for each in checked.errors):
            size = len(source if isinstance(source, str | bytes) else orjson.dumps(source))
            raise AgentTooLarge(size=size, limit=MAX_BYTES)
        if checked.errors or document is None:
            raise InvalidAgent(errors=checked.errors, warnings=checked.warnings)
        before = await self.agents.find(str(document["agent"]["id"]))
        stored = await self.agents.put(document, expected_version, person, variables, source=list_name)
        if stored.desired == "running" and stored.check is None:
            stored = await self._look(stored)
        is_new = before is None or before.version != stored.version
        return Applied(agent=stored, changed=is_new, warnings=tuple(checked.warnings))

    async def rollback(self, agent_id: str, version: int) -> StoredAgent:
        """Make a version that is kept the current one. Raises: AgentNotFound, AgentChanged."""
        stored = await self.agents.rollback(agent_id, version)
        return await self._look(stored) if stored.desired == "running" and stored.check is None else stored

    async def document(self, agent_id: str, version: int | None = None) -> AgentDocumentVersion:
        """Return a version whole, by default the current one. Raises: AgentNotFound."""
        stored = await self.agents.get(agent_id)
        return await self.agents.version(agent_id, stored.version if version is None else version)

    async def _checked(
        self,
        source: str | bytes | Mapping[str, Any],
        variables: Mapping[str, str] | None,
        base_url: str | None,
        agent_id: str | None,
    ) -> CheckedDocument:
        """Return a document with what is wrong in itself."""
        if base_url is not None:
            read = await asyncio.to_thread(read_document, source, variables)
            if read.document is not None and not read.problems:
                source, variables = {**read.document, "base_url": base_url}, None
        checked = await self._compile(source, variables)
        problems = check_variables(variables or {}, self.setting.world)
        if checked.document is not None and agent_id not in (None, checked.document.agent.id):
            what = "the document has another id than the agent"
            problems.append(DocumentProblem(where="agent.id", code="bad_name", what=what, allowed=agent_id))
        return replace(checked, errors=(*problems, *checked.errors)) if problems else checked

    async def _compile(
        self, source: str | bytes | Mapping[str, Any], variables: Mapping[str, str] | None = None
    ) -> CheckedDocument:
        return await asyncio.to_thread(check_document, source, variables)

    # -- states

    async def start(self, agent_id: str) -> StoredAgent:
        """Let an agent take conversations. One that cannot run yet is failed, and looked at again.

        Raises: AgentNotFound, InvalidAgent with what is wrong.
        """
        stored = await self._want(agent_id, desired="running")
        stored = await self._look(stored, strictly=True)
        log.info("agent_started", extra={"agent_id": agent_id, "ok": runs(stored)})
        if stored.check is not None and not stored.check.ok:
            raise InvalidAgent(errors=[DocumentProblem(**problem) for problem in stored.check.problems])
        return stored

    async def stop(self, agent_id: str, *, now: bool = False, by_list: bool = False) -> StoredAgent:
        """Let no new conversation begin; with `now`, end those that are open. Raises: AgentNotFound."""
        stored = await self._want(agent_id, desired="stopped", stopped_by_list=by_list)
        log.info("agent_stopped", extra={"agent_id": agent_id, "now": now})
        if now and self.endings is not None:
            await self.endings.end_all_of(agent_id)
        return stored

    async def delete(self, agent_id: str) -> None:
        """Forget a stopped agent without conversations. Raises: AgentNotFound, AgentStateRefused."""
        stored = await self.agents.get(agent_id)
        state = await self._state(stored)
        if state != "stopped":
            raise AgentStateRefused(agent_id=agent_id, state=state, asked="delete")
        await self.agents.delete(agent_id)
        self._looked.pop(agent_id, None)

    async def _want(self, agent_id: str, **changes: Any) -> StoredAgent:
        def wanted(stored: StoredAgent) -> StoredAgent:
            if all(getattr(stored, name) == value for name, value in changes.items()):
                return stored
            return stored.model_copy(update={**changes, "updated_time": self.agents.clock()})

        return await self.agents.change(agent_id, wanted)

    async def _state(self, stored: StoredAgent) -> State:
        open_ones = 0
        if stored.desired == "stopped":
            open_ones = await self.activity.open_conversations(stored.agent_id, limit=1)
        return state_from(stored, open_ones)

    async def _look(self, stored: StoredAgent, *, strictly: bool = False) -> StoredAgent:
        """Look at an agent's document and world, and note what was found.

        One that runs goes on with what is missing since, degraded, unless it is looked at `strictly`.
        """
        problems: Sequence[DocumentProblem]
        try:
            compiled = await self.compiled(stored.agent_id, stored.version)
            problems = await check_world(compiled, self.setting.world)
        except InvalidAgent as exc:  # a newer program asks for more
            problems = exc.errors
        now = self.agents.clock()
        self._looked[stored.agent_id] = (stored.version, now)
        ok = not _errors(problems) or (runs(stored) and not strictly)
        noted = tuple(
            {name: value for name, value in asdict(problem).items() if value is not None}
            for problem in problems[:_STORED_PROBLEMS]
        )
        check = AgentCheck(version=stored.version, ok=ok, time=now, problems=noted)

        def note(current: StoredAgent) -> StoredAgent:
            known = current.check
            if current.version != check.version:
                return current
            if known is not None and (known.version, known.ok, known.problems) == (check.version, ok, noted):
                return current
            return current.model_copy(update={"check": check})

        if not ok:
            facts = {"agent_id": stored.agent_id, "codes": [problem.code for problem in problems]}
            log.warning("agent_failed", extra=facts)
        return await self.agents.change(stored.agent_id, note)

    # -- conversations

    async def running(self, agent_id: str) -> CompiledAgent:
        """Return the agent with which a new conversation begins. Raises: AgentNotFound, AgentNotRunning."""
        return (await self.running_version(agent_id))[0]

    async def running_version(self, agent_id: str) -> tuple[CompiledAgent, int]:
        """Return `running`, and which version that is. Raises: AgentNotFound, AgentNotRunning."""
        stored = await self.agents.get(agent_id)
        if stored.desired == "running" and (stored.check is None or stored.check.version != stored.version):
            stored = await self._look(stored)
        if not runs(stored):
            raise AgentNotRunning(agent_id=agent_id, state=await self._state(stored))
        return await self.compiled(agent_id, stored.version), stored.version

    async def compiled(self, agent_id: str, version: int) -> CompiledAgent:
        """Return a version of an agent, running or stopped; of one not kept any more, the current one.

        Raises: AgentNotFound; InvalidAgent where this program does not take the document any more.
        """
        stored = await self.agents.get(agent_id)
        known = next((each for each in stored.versions if each.version == version), stored.current)
        key = f"{agent_id}/{known.version}/{known.fingerprint}"
        found = self._compiled.get(key)
        if found is None:
            kept = await self.agents.version(agent_id, known.version)
            checked = await self._compile(kept.document)
            if checked.agent is None:
                raise InvalidAgent(errors=checked.errors)
            found = checked.agent
            self._compiled.put(key, found, known.size)
        return found

    def executor(self, agent: CompiledAgent) -> HttpExecutor:
        """Return what sends an agent's requests; its connections are its own, and kept."""
        executor = self.clients.executor(agent.agent_id)
        executor.on_tool = self.on_tool
        return executor

    async def model_unreachable(self, agent_id: str) -> None:
        """Note for the agent's health that its model could not be reached. Raises: AgentNotFound."""
        now = self.agents.clock()

        def note(stored: StoredAgent) -> StoredAgent:
            is_known = now - stored.model_failed_time < LOOK_MS
            return stored if is_known else stored.model_copy(update={"model_failed_time": now})

        await self.agents.change(agent_id, note)

    # -- what is seen

    async def list(self) -> list[AgentView]:
        """Return all agents with state and health, by id."""
        found, doing = await self.agents.list(), await self.activity.all()
        nothing = AgentActivity()
        return [view_of(stored, doing.get(stored.agent_id, nothing), self.agents.clock()) for stored in found]

    async def list_reports(self) -> list[dict[str, Any]]:
        """Return what the last round of each list did."""
        return [] if self.lists is None else await self.lists.reports()

    async def view(self, agent_id: str) -> AgentView:
        """Return one agent as `list` does. Raises: AgentNotFound."""
        stored, doing = await self.agents.get(agent_id), await self.activity.all()
        return view_of(stored, doing.get(agent_id) or AgentActivity(), self.agents.clock())

    # -- again and again

    async def tick(self, now: int | None = None) -> None:
        """Look at the agents that should run: each at first, then what failed or runs once a minute.

        Raises: SourceError.
        """
        now = self.agents.clock() if now is None else now
        if self.lists is not None:
            self.lists.tick(now)
        if now - self._listed_time < _LIST_MS:
            return
        wanted = await self.agents.list(desired="running")
        due = [stored for stored in wanted if self._is_due(stored, now)]
        for stored in due[:_LOOKED_AT_ONCE]:
            try:
                await self._look(stored)
            except AgentNotFound:
                continue
        if len(due) <= _LOOKED_AT_ONCE:
            self._listed_time = now
        await self.clients.close_idle()

    async def aclose(self) -> None:
        """End a round of a list that is under way, and close the connections of all agents."""
        if self.lists is not None:
            await self.lists.aclose()
        await self.clients.aclose()

    def _is_due(self, stored: StoredAgent, now: int) -> bool:
        version, time = self._looked.get(stored.agent_id, (0, 0))
        return version != stored.version or now - time >= LOOK_MS


def _errors(problems: Sequence[DocumentProblem]) -> list[DocumentProblem]:
    return [each for each in problems if each.code not in WARNINGS]
