"""The agents of a workspace: which of them run, the problems of the others, compiled documents.

Decision: an agent's state is not stored. It follows from whether the agent should run, from the
last check of its current version, and from its open conversations. So all servers and the command
line agree on it, also after a kill.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import orjson

from graphrag.agents import agent_view, errors
from graphrag.agents.agent_store import AgentCheck, AgentDocumentVersion, Agents, StoredAgent
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.document_check import WARNINGS, CheckedDocument, check_document
from graphrag.agents.loading import MAX_BYTES, read_document
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.agents.sync import AgentLists
from graphrag.agents.world import World, check_variables, check_world
from graphrag.roles import Person
from tools.http.executor import HttpExecutor
from tools.http.problems import DocumentProblem

log = logging.getLogger(__name__)


LOOK_MS: Final = 60_000  # between two checks of an agent that failed or runs
COMPILED_BYTES: Final = 16 * 1024 * 1024  # of the sources of compiled documents in a process
IDLE_MS: Final = 900_000  # until unused connections are closed; longer than a turn
ACTIVITY_MS: Final = 3_000  # for which the activity of agents is cached
_LIST_MS: Final = 15_000
_LOOKED_AT_ONCE: Final = 50
_STORED_PROBLEMS: Final = 20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A stored document. `changed`: it differs from the version before."""

    agent: StoredAgent
    changed: bool
    warnings: tuple[DocumentProblem, ...]


@final
class AgentManager:
    """Starts and stops the agents of one workspace. Every server and the command line may have one.

    `new_executor` makes an HTTP executor with its own connections. `list_files`: lists that ticks
    synchronise agents with; `on_list_synced` gets the outcome of each round.
    """

    def __init__(
        self,
        agents: Agents,
        world: World,
        new_executor: Callable[[], HttpExecutor],
        *,
        list_files: Sequence[str] = (),
        on_list_synced: Callable[[str], None] | None = None,
    ) -> None:
        self.agents = agents
        self.world = world
        self._new_executor = new_executor
        self.lists = AgentLists(self, files=list_files, on_synced=on_list_synced)
        self._executors: dict[str, tuple[HttpExecutor, int]] = {}
        self._compiled: dict[str, tuple[CompiledAgent, int]] = {}
        self._looked: dict[str, tuple[int, int]] = {}
        self._listed_time = 0
        self._activity: tuple[int, Mapping[str, agent_view.AgentActivity]] = (0, {})

    # -- documents

    async def check(
        self,
        source: str | bytes | Mapping[str, Any],
        variables: Mapping[str, str] | None = None,
        *,
        base_url: str | None = None,
    ) -> CheckedDocument:
        """Returns the problems of a document, also with its graphs, hosts and model. Stores
        nothing.
        """
        checked = await self._checked(source, variables, base_url)
        if checked.agent is None:
            return checked
        found = await check_world(checked.agent, self.world)
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
        """Stores a valid document as the current version. New conversations use it at once.

        Raises: InvalidAgent, AgentChanged, AgentTooLarge, TooManyAgents.
        """
        checked = await self._checked(source, variables, base_url, agent_id)
        document = checked.resolved
        if document is None and any(each.code == "too_large" for each in checked.errors):
            size = len(source if isinstance(source, str | bytes) else orjson.dumps(source))
            raise errors.AgentTooLarge(size=size, limit=MAX_BYTES)
        if checked.errors or document is None:
            raise errors.InvalidAgent(errors=checked.errors, warnings=checked.warnings)
        before = await self.agents.find(str(document["agent"]["id"]))
        stored = await self.agents.put(
            document, expected_version, person, variables, source=list_name
        )
        stored = await self._looked_at(stored)
        is_new = before is None or before.version != stored.version
        return Applied(agent=stored, changed=is_new, warnings=tuple(checked.warnings))

    async def rollback(self, agent_id: str, version: int) -> StoredAgent:
        """Makes a stored version the current one. Raises: AgentNotFound, AgentChanged."""
        return await self._looked_at(await self.agents.rollback(agent_id, version))

    async def document(self, agent_id: str, version: int | None = None) -> AgentDocumentVersion:
        """Returns a complete version, by default the current one. Raises: AgentNotFound."""
        stored = await self.agents.get(agent_id)
        return await self.agents.version(agent_id, stored.version if version is None else version)

    async def compiled_source(self, source: str | bytes | Mapping[str, Any]) -> CompiledAgent:
        """Returns the agent of a document that is not stored. Raises: InvalidAgent."""
        checked = await self._checked(source, None, None)
        if checked.agent is None:
            raise errors.InvalidAgent(errors=checked.errors, warnings=checked.warnings)
        return checked.agent

    async def _checked(
        self,
        source: str | bytes | Mapping[str, Any],
        variables: Mapping[str, str] | None,
        base_url: str | None,
        agent_id: str | None = None,
    ) -> CheckedDocument:
        """Returns a document with its own problems."""
        if base_url is not None:
            read = await asyncio.to_thread(read_document, source, variables)
            if read.document is not None and not read.problems:
                source = {**read.document, "base_url": base_url}
                variables = None
        checked = await asyncio.to_thread(check_document, source, variables)
        problems = check_variables(variables or {}, self.world)
        if checked.document is not None and agent_id not in (None, checked.document.agent.id):
            what = "the document has another id than the agent"
            problems.append(
                DocumentProblem(where="agent.id", code="bad_name", what=what, allowed=agent_id)
            )
        return replace(checked, errors=(*problems, *checked.errors)) if problems else checked

    # -- states

    async def start(self, agent_id: str) -> StoredAgent:
        """Lets an agent take conversations. If it cannot run yet, it is failed and checked again
        later.

        Raises: AgentNotFound, InvalidAgent.
        """
        stored = await self._want(agent_id, desired="running")
        stored = await self._look(stored, strictly=True)
        log.info("agent_started", extra={"agent_id": agent_id, "ok": agent_view.runs(stored)})
        if stored.check is not None and not stored.check.ok:
            raise errors.InvalidAgent(errors=stored.check.problems)
        return stored

    async def stop(self, agent_id: str, *, by_list: bool = False) -> StoredAgent:
        """Lets no new conversation begin. Open ones go on. Raises: AgentNotFound."""
        stored = await self._want(agent_id, desired="stopped", stopped_by_list=by_list)
        log.info("agent_stopped", extra={"agent_id": agent_id})
        return stored

    async def delete(self, agent_id: str) -> None:
        """Deletes a stopped agent without conversations. Raises: AgentNotFound,
        AgentStateRefused.
        """
        stored = await self.agents.get(agent_id)
        state = await self._state(stored)
        if state != "stopped":
            raise errors.AgentStateRefused(agent_id=agent_id, state=state, asked="delete")
        await self.agents.delete(agent_id)
        self._looked.pop(agent_id, None)

    async def _want(self, agent_id: str, **changes: Any) -> StoredAgent:
        def wanted(stored: StoredAgent) -> StoredAgent:
            if all(getattr(stored, name) == value for name, value in changes.items()):
                return stored
            return stored.model_copy(update={**changes, "updated_time": self.agents.clock()})

        return await self.agents.change(agent_id, wanted)

    async def _state(self, stored: StoredAgent) -> agent_view.State:
        open_ones = 0
        if stored.desired == "stopped":
            open_ones = await agent_view.open_conversations(
                self.agents.records, stored.agent_id, limit=1
            )
        return agent_view.state_from(stored, open_ones)

    async def _looked_at(self, stored: StoredAgent) -> StoredAgent:
        """Checks an agent that should run and whose current version was not checked yet."""
        is_known = stored.check is not None and stored.check.version == stored.version
        return stored if is_known or stored.desired == "stopped" else await self._look(stored)

    async def _look(self, stored: StoredAgent, *, strictly: bool = False) -> StoredAgent:
        """Checks an agent's document, graphs, hosts and model, and stores the result.

        A running agent goes on with new problems, as degraded, unless `strictly`. Its voice is
        tried only before it begins to run.
        """
        problems: Sequence[DocumentProblem]
        try:
            compiled = await self.compiled(stored.agent_id, stored.version)
            problems = await check_world(compiled, self.world)
            begins = strictly or not agent_view.runs(stored)
            if begins and (refused := await self.world.voice_problem(compiled)) is not None:
                problems = [*problems, refused]
        except errors.InvalidAgent as exc:  # a newer program asks for more
            problems = exc.errors
        now = self.agents.clock()
        self._looked[stored.agent_id] = (stored.version, now)
        ok = not _errors(problems) or (agent_view.runs(stored) and not strictly)
        noted = tuple(problems[:_STORED_PROBLEMS])
        check = AgentCheck(version=stored.version, ok=ok, time=now, problems=noted)

        def note(current: StoredAgent) -> StoredAgent:
            known = current.check
            if current.version != check.version:
                return current
            if known is not None and (known.version, known.ok, known.problems) == (
                check.version,
                ok,
                noted,
            ):
                return current
            return current.model_copy(update={"check": check})

        if not ok:
            facts = {"agent_id": stored.agent_id, "codes": [problem.code for problem in problems]}
            log.warning("agent_failed", extra=facts)
        return await self.agents.change(stored.agent_id, note)

    # -- conversations

    async def running(self, agent_id: str) -> CompiledAgent:
        """Returns the agent for a new conversation. Raises: AgentNotFound, AgentNotRunning."""
        return (await self.running_version(agent_id))[0]

    async def running_version(self, agent_id: str) -> tuple[CompiledAgent, int]:
        """Returns `running` and its version. Raises: AgentNotFound, AgentNotRunning."""
        stored = await self._looked_at(await self.agents.get(agent_id))
        if not agent_view.runs(stored):
            raise errors.AgentNotRunning(agent_id=agent_id, state=await self._state(stored))
        return await self.compiled(agent_id, stored.version), stored.version

    async def compiled(self, agent_id: str, version: int) -> CompiledAgent:
        """Returns a version of an agent; the current one if that version is not stored any more.

        Raises: AgentNotFound; InvalidAgent if this program does not accept the document.
        """
        stored = await self.agents.get(agent_id)
        known = next((each for each in stored.versions if each.version == version), stored.current)
        key = f"{agent_id}/{known.version}/{known.fingerprint}"
        found = self._compiled.pop(key, None)
        if found is None:
            kept = await self.agents.version(agent_id, known.version)
            checked = await asyncio.to_thread(check_document, kept.document, is_stored=True)
            if checked.agent is None:
                raise errors.InvalidAgent(errors=checked.errors)
            found = (checked.agent, known.size)
        self._compiled[key] = found  # the one used last is the last
        while (
            sum(size for _, size in self._compiled.values()) > COMPILED_BYTES
            and len(self._compiled) > 1
        ):
            del self._compiled[next(iter(self._compiled))]
        return found[0]

    def executor(self, name: str) -> HttpExecutor:
        """Returns the HTTP executor of an agent or of a list, with its own connections."""
        kept = self._executors.get(name)
        executor = self._new_executor() if kept is None else kept[0]
        self._executors[name] = (executor, self.agents.clock())
        return executor

    def new_executor(self) -> HttpExecutor:
        """Returns an executor of its own for the caller to close."""
        return self._new_executor()

    async def _close_executors(self, used_before: float) -> None:
        for name in [name for name, (_, used) in self._executors.items() if used < used_before]:
            await self._executors.pop(name)[0].aclose()

    async def model_failed(self, agent_id: str, refusal: ModelRefusal | None = None) -> None:
        """Stores for the agent's health that its model was not reached, or its refusal.

        Raises: AgentNotFound.
        """
        now = self.agents.clock()

        def note(stored: StoredAgent) -> StoredAgent:
            is_known = now - stored.model_failed_time < LOOK_MS
            if is_known and refusal in (None, stored.model_error):
                return stored
            return stored.model_copy(update={"model_failed_time": now, "model_error": refusal})

        await self.agents.change(agent_id, note)

    # -- what is seen

    async def list(self) -> list[agent_view.AgentSummary]:
        """Returns all agents with state and health, by id."""
        found = await self.agents.list()
        doing = await self._doing()
        return [
            agent_view.summary_of(stored, doing.get(stored.agent_id), self.agents.clock())
            for stored in found
        ]

    async def view(self, agent_id: str) -> agent_view.AgentSummary:
        """Returns one agent as `list` does. Raises: AgentNotFound."""
        stored = await self.agents.get(agent_id)
        doing = await self._doing()
        return agent_view.summary_of(stored, doing.get(agent_id), self.agents.clock())

    async def _doing(self) -> Mapping[str, agent_view.AgentActivity]:
        now, (time, found) = self.agents.clock(), self._activity
        if not now - ACTIVITY_MS < time <= now:
            found = await agent_view.read_activity(self.agents.records, now)
            self._activity = (now, found)
        return found

    # -- again and again

    async def tick(self, now: int | None = None) -> None:
        """Checks the agents that should run: new versions at once, others once a minute.

        Raises: SourceError.
        """
        now = self.agents.clock() if now is None else now
        self.lists.tick(now)
        if now - self._listed_time < _LIST_MS:
            return
        wanted = await self.agents.list(desired="running")
        due = [stored for stored in wanted if self._is_due(stored, now)]
        for stored in due[:_LOOKED_AT_ONCE]:
            try:
                await self._look(stored)
            except errors.AgentNotFound:
                continue
        if len(due) <= _LOOKED_AT_ONCE:
            self._listed_time = now
        await self._close_executors(now - IDLE_MS)

    async def aclose(self) -> None:
        """Stops the synchronisation under way, and closes the connections of all agents."""
        await self.lists.aclose()
        await self._close_executors(float("inf"))

    def _is_due(self, stored: StoredAgent, now: int) -> bool:
        version, time = self._looked.get(stored.agent_id, (0, 0))
        return version != stored.version or now - time >= LOOK_MS


def _errors(problems: Sequence[DocumentProblem]) -> list[DocumentProblem]:
    return [each for each in problems if each.code not in WARNINGS]
