"""The `chat` command: a conversation on a terminal, in which proposals are decided."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager
from typing import Annotated, Any, TypeVar

import click
import orjson
import typer

from cli import render
from cli.command import command
from cli.inputs import YES_OR_NO, choose, read_line
from cli.options import RoleOption, ThreadOption, WithModel, argument, option
from cli.question_card import ask_card
from cli.turn_display import TurnView, show_proposal
from graphrag.agent.events import (
    Completed,
    Ending,
    Event,
    Failed,
    ProposalPending,
    QuestionAsked,
    ToolLimit,
    TurnStarted,
)
from graphrag.agent.loop import Agent
from graphrag.agent.thread_store import NothingToResume
from graphrag.agents.life import Endings
from graphrag.app.model_services import open_agent
from graphrag.app.wiring import Services
from graphrag.approvals import Approval, ApprovalError, Approve, ApproveEdited, Decision, Reject
from graphrag.errors import describe
from graphrag.roles import Person
from tools.proposals import MalformedProposal, parse_action, to_document
from tools.session_tools import QUESTIONS

T = TypeVar("T")
Turn = AsyncGenerator[Event]
HELP = """\
Ask anything about the graph, or for a change of it. Changes are proposed: you decide each.
  /retry   try a failed turn again            /later   see what still waits for a decision
  /help    this list                          /end     end the conversation with an agent
  /exit    leave (Ctrl-D too); Ctrl-C stops a turn"""
FEATURES = frozenset({QUESTIONS})  # of a terminal, beyond those of every client
E164 = re.compile(r"\+[1-9][0-9]{6,14}")
OptionalGraph = Annotated[
    str | None, argument("[GRAPH]", "A graph's key; with --agent, else the agent's first one.")
]
AgentOption = Annotated[
    str | None, option("--agent", "ID", "Talk with this agent (see `nodius agents list`).")
]
CallerOption = Annotated[
    str | None,
    option("--caller", "NUMBER", "For this caller, such as +33612345678 (editors and above)."),
]
_DECISIONS = {"a": "approve", "e": "edit", "r": "reject", "l": "later"}


@command(json=False)
async def chat(
    common: WithModel,  # noqa: ARG001 - its options are settings
    services: Services,
    graph: OptionalGraph = None,
    thread: ThreadOption = None,
    agent: AgentOption = None,
    caller: CallerOption = None,
    role: RoleOption = "admin",
) -> None:
    """Talk about a graph or with an agent; decide proposals. Ctrl-C stops a turn, Ctrl-D ends."""
    if graph is None and agent is None and thread is None:
        raise typer.BadParameter("name a graph (see `nodius graphs`), or an agent: --agent ID")
    if caller is not None and not E164.fullmatch(caller):
        raise typer.BadParameter(f"{caller!r} is no number: write it as +33612345678")
    person = services.local_person(role)
    about = graph or await _graph_of(services, person, thread, agent)
    if about:
        await services.source.get_graph(about)
    async with open_agent(services) as chats:
        view = TurnView(services.settings.language)
        endings = services.life.endings
        talk = Chat(chats, endings, person, about, view, thread, agent_id=agent, caller=caller)
        await talk.run()


async def _graph_of(
    services: Services, person: Person, thread: str | None, agent: str | None
) -> str:
    """Returns the graph of a conversation, or the first graph of an agent, "" if there is none."""
    if thread is not None:
        return (await services.threads.get(thread, person)).thread.graph_key
    compiled = await services.agents.running(agent or "")
    return next(iter(compiled.document.graphs), "")


class Chat:
    """One conversation.

    `thread`: its id, None for a new one, which begins with the first message. `graph`: "" if it is
    about no graph.
    """

    def __init__(
        self,
        agent: Agent,
        endings: Endings,
        person: Person,
        graph: str,
        view: TurnView,
        thread: str | None,
        *,
        agent_id: str | None = None,
        caller: str | None = None,
    ) -> None:
        self._agent = agent
        self._endings = endings
        self._person = person
        self._graph = graph
        self._view = view
        self._thread = thread
        self._agent_id = agent_id
        self._caller = caller
        self._ended = False

    async def run(self) -> None:
        """Reads lines and answers them until the person ends the conversation."""
        render.note(
            "Ask about the graph, or for a change; /help lists the commands, /exit or Ctrl-D ends."
        )
        if self._thread is not None:
            await self._continue()
        while not self._ended and (text := read_line("> ")) is not None:
            match text.strip():
                case "":
                    continue
                case "/exit" | "/quit":
                    break
                case "/help":
                    for line in HELP.splitlines():
                        render.note(line)
                case "/retry" | "/later":
                    await self._continue()
                case "/end":
                    await self._end()
                case message if message.startswith("/"):
                    render.fault(f"there is no command {message.split()[0]}; /help lists them")
                case message:
                    await self._turn(self._question(message))
        if self._thread is not None and not self._ended:
            about = f"{self._graph} " if self._graph else ""
            render.note(f"To continue: nodius chat {about}--thread {self._thread}")

    def _question(self, message: str) -> Turn:
        return self._agent.run(
            self._thread,
            self._graph,
            message,
            self._person,
            agent_id=self._agent_id,
            caller_phone=self._caller if self._thread is None else None,
            features=FEATURES,
        )

    def _resumed(self, thread_id: str, **how: Any) -> Turn:
        return self._agent.resume(thread_id, self._person, features=FEATURES, **how)

    async def _continue(self) -> None:
        """Continues the conversation where it waits or broke off."""
        if self._thread is None:
            render.note("There is no conversation yet.")
            return
        await self._turn(self._resumed(self._thread))

    async def _end(self) -> None:
        """Ends the conversation with an agent and prints its outcome."""
        if self._thread is None:
            render.note("There is no conversation yet.")
            return
        thread = await self._or_fault(self._endings.end_by_person(self._thread, self._person))
        if thread is not None:
            ended = thread.agent
            self._print_end(ended.end_reason if ended else None, ended.outcome if ended else None)

    def _print_end(self, reason: str | None, outcome: str | None) -> None:
        self._ended = True
        render.note(f"The conversation has ended ({reason}); outcome: {outcome or '–'}.")

    async def _turn(self, events: Turn) -> None:
        """Shows a turn, and the turns that follow from decisions in it."""
        turn: Turn | None = events
        while turn is not None:
            ending = await self._shown(turn)
            turn = None
            if isinstance(ending, ProposalPending):
                turn = self._decided(ending)
            elif isinstance(ending, ToolLimit):
                turn = self._limit(ending)
            elif isinstance(ending, QuestionAsked):
                turn = self._answered(ending)
            elif isinstance(ending, Failed) and ending.fault.retryable:
                render.note("/retry tries it again.")
            elif isinstance(ending, Completed) and ending.end_reason is not None:
                self._print_end(ending.end_reason, ending.outcome)
        if self._view.usage():
            render.note(self._view.usage())
        self._view.events.clear()

    async def _shown(self, events: Turn) -> Ending | None:
        """Shows a turn to its end. Ctrl-C stops the turn, not the conversation."""
        task = asyncio.ensure_future(self._view.show(events))
        with on_interrupt(task.cancel):
            try:
                return await self._or_fault(task)
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise
                self._view.end_line()
                render.note("Stopped.")
                return None
            finally:
                for event in self._view.events:
                    if isinstance(event, TurnStarted):
                        self._thread = event.thread_id

    async def _or_fault(self, work: Awaitable[T]) -> T | None:
        """Returns the result of `work`; prints an expected error and returns None."""
        try:
            return await work
        except NothingToResume:
            render.note("Nothing waits here.")
        except Exception as exc:
            if (described := describe(exc, self._view.language)) is None:
                raise
            render.fault(described.message)
        return None

    def _limit(self, limit: ToolLimit) -> Turn:
        more = limit.max_extended - limit.rounds_used
        granted = choose(
            f"{limit.rounds_used} rounds of tools are used up. Grant {more} more? [y/n] ", YES_OR_NO
        )
        return self._resumed(limit.thread_id, grant_rounds=granted is True)

    def _answered(self, ending: QuestionAsked) -> Turn | None:
        response = ask_card(ending.asked.question.card)
        if response is None:
            render.note("Left to be answered: /later here; a message takes its place.")
            return None
        return self._resumed(ending.thread_id, response=response)

    def _decided(self, pending: ProposalPending) -> Turn | None:
        """Asks about proposals, the oldest first, until one is decided; None if none is."""
        for approval in pending.approvals:
            show_proposal(approval, self._view.language)
            decision = ask_decision(approval)
            if decision is not None:
                return self._deciding(pending.thread_id, approval, decision)
        render.note("Not decided yet. To decide: /later here, or nodius review approve|reject ID.")
        return None

    async def _deciding(self, thread_id: str, approval: Approval, decision: Decision) -> Turn:
        """Resumes with a decision. If it is refused, prints the reason and continues the
        conversation.
        """
        try:
            async with aclosing(
                self._resumed(thread_id, decision=decision, approval_id=approval.id)
            ) as events:
                async for event in events:
                    yield event
        except (ApprovalError, MalformedProposal) as exc:
            language = self._view.language
            render.fault(exc.text(language) if isinstance(exc, ApprovalError) else str(exc))
            async with aclosing(self._resumed(thread_id)) as events:
                async for event in events:
                    yield event


def ask_decision(approval: Approval) -> Decision | None:
    """Asks the person to decide a proposal; None to decide it later."""
    while (chosen := choose("[a]pprove, [e]dit, [r]eject, [l]ater? ", _DECISIONS)) is not None:
        match chosen:
            case "approve":
                return Approve()
            case "reject":
                why = read_line("Why? (the model sees it; Enter for no reason) ")
                return Reject((why or "").strip())
            case "edit":
                if (edited := edit_action(approval)) is not None:
                    return edited
            case _:
                return None
    return None


def edit_action(approval: Approval) -> ApproveEdited | None:
    """Opens the action as JSON in an editor; None if it is unchanged or invalid afterwards."""
    before = orjson.dumps(to_document(approval.action), option=orjson.OPT_INDENT_2).decode()
    after = click.edit(before, extension=".json")
    if after is None or after.strip() == before.strip():
        render.note("Unchanged.")
        return None
    try:
        return ApproveEdited(parse_action(orjson.loads(after)))
    except orjson.JSONDecodeError as exc:
        render.fault(f"that is not JSON: {exc}")
    except MalformedProposal as exc:
        render.fault(str(exc))
    return None


@contextmanager
def on_interrupt(action: Callable[[], object]) -> Generator[None]:
    """Calls `action` at Ctrl-C in the block. Without signal handlers Ctrl-C ends the program."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, action)
    except (NotImplementedError, RuntimeError, ValueError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
