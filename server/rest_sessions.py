"""REST of automation runs: read, stop, resume, decide and confirm them, and continue one
by hand.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field, model_validator
from starlette.convertors import Convertor, register_url_convertor

from graphrag.agent.thread_messages import is_note, shown
from graphrag.agent.thread_store import Thread
from graphrag.approvals.approval import MAX_FEEDBACK
from graphrag.automations.automation_view import RunSummary, run_summary
from graphrag.automations.errors import AutomationRefused
from graphrag.automations.session_control import decided_documents
from graphrag.sessions.phases import Phase
from server.bodies import AnswerBody, Id, RequestBody
from server.error_schemas import ERRORS
from server.requests import EXCLUDE_NONE, GraphKey, Limit, Workspaces, state_of
from server.rest_automations import RunList
from server.thread_traces import Brief, ThreadTrace, Turn, thread_trace


class _SessionKey(Convertor[str]):
    """The key of a session in an address: `auto/ID/TIME`, `seed/ID`, or an invalid word."""

    regex = "auto/[^/]+/[^/]+|seed/[^/]+|[^/]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("session", _SessionKey())

router = APIRouter(prefix="/api/sessions", tags=["sessions"], responses=ERRORS)


class RunDetail(RunSummary):
    """`messages` in OpenAI's form; `notes` are those of the service, each `after` a number of
    messages.
    """

    messages: list[dict[str, Any]]
    notes: list[dict[str, Any]]


@router.get("", **EXCLUDE_NONE)
async def sessions(
    workspaces: Workspaces,
    graph_key: GraphKey = None,
    phase: Annotated[Phase | None, Query(description="In one phase only.")] = None,
    is_open: Annotated[
        bool | None, Query(alias="open", description="Only runs that have ended, or that have not.")
    ] = None,
    limit: Limit = 100,
) -> RunList:
    """Lists runs, newest first: the caller's own; for reviewers and admins, all."""
    threads = await workspaces.each(
        lambda place: place.automations.sessions.list(
            place.person, graph_key=graph_key, phase=phase, is_open=is_open, limit=limit
        )
    )
    runs = list(map(run_summary, threads))
    runs.sort(key=lambda run: run.scheduled_time, reverse=True)
    return RunList(sessions=runs[:limit])


# A run's key holds slashes: `auto/AUTOMATION/TIME`.


@router.post("/{session_id:session}/stop", **EXCLUDE_NONE)
async def stop(workspaces: Workspaces, session_id: Id) -> RunSummary:
    """Stops a run. Its proposals still wait for decisions."""
    place, _ = await workspaces.of_session(session_id)
    return run_summary(await place.automations.sessions.stop(session_id, place.person))


@router.post("/{session_id:session}/resume", **EXCLUDE_NONE)
async def resume(workspaces: Workspaces, session_id: Id) -> RunSummary:
    """Continues a run that waits for the network, or ended without it."""
    place, _ = await workspaces.of_session(session_id)
    return run_summary(await place.automations.sessions.resume(session_id, place.person))


@router.post("/{session_id:session}/retry", status_code=202, **EXCLUDE_NONE)
async def retry(request: Request, workspaces: Workspaces, session_id: Id) -> RunSummary:
    """Runs the automation of a run that has ended again, for the time of that run: the periods of
    its message are counted from then.
    """
    place, _ = await workspaces.of_session(session_id)
    state_of(request).limits.messages.spend(place.person.user_id)
    return run_summary(await place.automations.retry(session_id, place.person))


class RunAnswerRequest(RequestBody):
    """`approved` decides every proposal of the run that is open; `response`
    answers its question.
    """

    approved: bool | None = None
    feedback: Annotated[str, Field(max_length=MAX_FEEDBACK)] = ""
    response: Annotated[str, Field(max_length=4_000)] | bool | None = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> RunAnswerRequest:
        if (self.approved is None) == (self.response is None):
            raise ValueError("give approved or response")
        return self


class AnswerOutcome(RunSummary):
    """The run, and what became of each proposal that was decided."""

    decided: list[dict[str, Any]]


@router.post("/{session_id:session}/answer", **EXCLUDE_NONE)
async def answer(workspaces: Workspaces, session_id: Id, body: RunAnswerRequest) -> AnswerOutcome:
    """Decides all open proposals of a run, in order, as the caller. A run asks no other
    questions.
    """
    place, thread = await workspaces.of_session(session_id)
    if body.approved is None:
        phase = thread.session.phase.value if thread.session else "idle"
        raise AutomationRefused("session_no_question", phase=phase)
    run, decided = await place.automations.sessions.answer(
        session_id, place.person, approved=body.approved, feedback=body.feedback
    )
    return AnswerOutcome(**dict(run_summary(run)), decided=decided_documents(decided))


class ConfirmRequest(RequestBody):
    """`end`: the run ends as announced; otherwise it continues."""

    end: bool


@router.post("/{session_id:session}/confirm", **EXCLUDE_NONE)
async def confirm(workspaces: Workspaces, session_id: Id, body: ConfirmRequest) -> RunSummary:
    """Ends a run whose end is announced at once, or continues it with ten more model calls."""
    place, _ = await workspaces.of_session(session_id)
    return run_summary(
        await place.automations.sessions.confirm(session_id, place.person, end=body.end)
    )


class ChatCopy(AnswerBody):
    thread_id: str


@router.post("/{session_id:session}/chat", status_code=201)
async def chat(workspaces: Workspaces, session_id: Id) -> ChatCopy:
    """Copies a run or template into a conversation of the caller, to continue by hand."""
    place, _ = await workspaces.of_session(session_id)
    copy = await place.automations.sessions.chat_copy(session_id, place.person)
    return ChatCopy(thread_id=copy.key)


@router.get("/{session_id:session}/trace")
async def trace(
    workspaces: Workspaces, session_id: Id, turn: Turn = None, brief: Brief = False
) -> ThreadTrace:
    """Returns how what a run answered came about. For those who may read the run."""
    place, thread = await workspaces.of_session(session_id)
    return await thread_trace(place, thread.key, turn=turn, brief=brief)


@router.get("/{session_id:session}", **EXCLUDE_NONE)
async def session(workspaces: Workspaces, session_id: Id) -> RunDetail:
    """Returns a run: its phase, what it waits for, its counts, report and messages."""
    _, thread = await workspaces.of_session(session_id)
    messages, notes = said_and_notes(thread)
    return RunDetail(**dict(run_summary(thread)), messages=messages, notes=notes)


def said_and_notes(thread: Thread) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the messages in OpenAI's form, and the notes of the service, each `after` a number of
    messages.
    """
    messages: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for message in thread.conversation_history:
        if is_note(message):
            notes.append({**message, "after": len(messages)})
        else:
            messages.append(shown(message))
    return messages, notes
