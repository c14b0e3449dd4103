"""REST of automations: create, list, change and run them, preview schedules, and receive events
that start them.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import Field

from graphrag.agent.thread_messages import to_stored
from graphrag.agent.thread_store import session_of
from graphrag.automations.automation_view import AutomationAnswer, RunSummary, run_summary
from graphrag.automations.drafts import AutomationChanges, AutomationDraft, EventName, EventRequest
from graphrag.automations.event_starts import EventAnswer, start_by_event
from graphrag.automations.templates import AutomationTemplate, templates
from server.approval_documents import ApprovalDocument, ApprovalListing, large_answer
from server.bodies import AnswerBody, Id, RequestBody, Success
from server.error_schemas import ERRORS, MODEL_ERRORS
from server.http_turns import until_gone
from server.requests import EXCLUDE_NONE, GraphKey, InLanguage, Limit, Workspaces, state_of

router = APIRouter(prefix="/api", tags=["automations"], responses=ERRORS)


class RunList(AnswerBody):
    sessions: list[RunSummary]


class AutomationDetail(AutomationAnswer):
    """`messages` are those of the template, in OpenAI's form."""

    messages: list[dict[str, Any]]


class AutomationList(AnswerBody):
    automations: list[AutomationAnswer]


@router.post("/automations", status_code=201, **EXCLUDE_NONE)
async def add(
    workspaces: Workspaces, language: InLanguage, body: AutomationDraft
) -> AutomationAnswer:
    """Creates an automation of a graph. For editors.

    `mode` `report` has no tools that write, `propose` has them. Without `cron` and `dates` it runs
    when a person starts it. `fromThreadId` copies the messages of the caller from a conversation.
    """
    place = await workspaces.of_graph(body.graph_key)
    return await place.automations.add(body, place.person, language)


@router.get("/automations", **EXCLUDE_NONE)
async def automations(
    workspaces: Workspaces, language: InLanguage, graph_key: GraphKey = None, limit: Limit = 100
) -> AutomationList:
    """Lists automations by graph and name: when each runs next, how it ended last, what waits and
    its cost.
    """
    answers = await workspaces.each(
        lambda place: place.automations.list(
            place.person, graph_key=graph_key, limit=limit, language=language
        )
    )
    return AutomationList(automations=answers[:limit])


@router.get("/automations/{automation_id}", **EXCLUDE_NONE)
async def automation(
    workspaces: Workspaces, automation_id: Id, language: InLanguage
) -> AutomationDetail:
    """Returns an automation with its message and its next five times."""
    place, view = await workspaces.of_automation(automation_id, language)
    messages = to_stored(await place.automations.messages(automation_id, place.person))
    return AutomationDetail(**dict(view), messages=messages)


@router.post("/automations/{automation_id}", **EXCLUDE_NONE)
async def edit(
    workspaces: Workspaces, automation_id: Id, language: InLanguage, body: AutomationChanges
) -> AutomationAnswer:
    """Changes an automation if its version is still `version`. Its next run is computed
    from now.
    """
    place, _ = await workspaces.of_automation(automation_id, language)
    return await place.automations.edit(automation_id, body, place.person, language)


@router.delete("/automations/{automation_id}")
async def remove(workspaces: Workspaces, automation_id: Id, language: InLanguage) -> Success:
    """Removes an automation. Open runs are stopped; its runs, proposals and audit entries stay."""
    place, _ = await workspaces.of_automation(automation_id, language)
    await place.automations.remove(automation_id, place.person)
    return Success()


class RunStarted(AnswerBody):
    session_id: str
    phase: str


@router.post("/automations/{automation_id}/run", status_code=202)
async def run(
    request: Request,
    workspaces: Workspaces,
    automation_id: Id,
    language: InLanguage,
    supersede: Annotated[
        bool, Query(description="Stop a run that is still open, and replace it.")
    ] = False,
) -> RunStarted:
    """Starts a run now. It is queued while another automation works on the graph."""
    place, _ = await workspaces.of_automation(automation_id, language)
    state_of(request).limits.messages.spend(place.person.user_id)
    thread = await place.automations.run(automation_id, place.person, supersede=supersede)
    return RunStarted(session_id=thread.key, phase=session_of(thread).phase)


class TrialAnswer(AnswerBody):
    """What a tried run did. `run` and `proposals` are not stored, and cannot be decided.

    `messages`: what was said, in OpenAI's form.
    """

    run: RunSummary
    messages: list[dict[str, Any]]
    proposals: list[ApprovalDocument]


@router.post(
    "/automations/{automation_id}/trial",
    response_model=TrialAnswer,
    responses=MODEL_ERRORS,
    **EXCLUDE_NONE,
)
async def tried(
    request: Request, workspaces: Workspaces, automation_id: Id, language: InLanguage
) -> Response:
    """Runs an automation to see what it would report and propose now. For its owner and admins.

    Only the usage of the model is stored. It ends after 4 minutes, or when the client disconnects.
    """
    place, _ = await workspaces.of_automation(automation_id, language)
    state = state_of(request)
    with state.activity.trials.taken(place.person):
        state.limits.messages.spend(place.person.user_id)
        work = place.workspace.try_automation(automation_id, place.person)
        trial = await until_gone(request, work)

    def answer() -> TrialAnswer:
        listing = ApprovalListing(language)
        return TrialAnswer(
            run=run_summary(trial.run),
            messages=to_stored(trial.run.messages),
            proposals=[listing.document(place, one) for one in trial.proposals],
        )

    return await large_answer(await asyncio.to_thread(answer))


@router.post("/automations/{automation_id}/enable", **EXCLUDE_NONE)
async def enable(
    workspaces: Workspaces, automation_id: Id, language: InLanguage
) -> AutomationAnswer:
    """Enables an automation: it runs at its times, computed from now."""
    place, _ = await workspaces.of_automation(automation_id, language)
    return await place.automations.enable(automation_id, place.person, language)


@router.post("/automations/{automation_id}/pause", **EXCLUDE_NONE)
async def pause(
    workspaces: Workspaces, automation_id: Id, language: InLanguage
) -> AutomationAnswer:
    """Pauses an automation: it starts no run until it is enabled."""
    place, _ = await workspaces.of_automation(automation_id, language)
    return await place.automations.pause(automation_id, place.person, language)


@router.post("/automations/{automation_id}/take-over", **EXCLUDE_NONE)
async def take_over(
    workspaces: Workspaces, automation_id: Id, language: InLanguage
) -> AutomationAnswer:
    """Makes the caller the owner of an automation. For admins."""
    place, _ = await workspaces.of_automation(automation_id, language)
    return await place.automations.take_over(automation_id, place.person, language)


@router.get("/automations/{automation_id}/sessions", **EXCLUDE_NONE)
async def sessions(
    workspaces: Workspaces, automation_id: Id, language: InLanguage, limit: Limit = 100
) -> RunList:
    """Lists the runs of an automation, newest first. For its owner, reviewers and admins."""
    place, _ = await workspaces.of_automation(automation_id, language)
    runs = await place.automations.runs(automation_id, place.person, limit=limit)
    return RunList(sessions=list(map(run_summary, runs)))


class TemplateList(AnswerBody):
    templates: list[AutomationTemplate]


@router.get("/automation-templates")
async def prepared(workspaces: Workspaces, language: InLanguage) -> TemplateList:  # noqa: ARG001 - for who is signed in
    """Lists automation templates in the caller's language."""
    return TemplateList(templates=list(templates(language).values()))


class ScheduleRequest(RequestBody):
    """A schedule to preview: `cron` or `dates` (milliseconds since 1970), in a time zone."""

    cron: Annotated[str, Field(max_length=1_000)] | None = None
    dates: Annotated[list[int], Field(default_factory=list[int], max_length=1_000)]
    timezone: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class ScheduleAnswer(AnswerBody):
    """A schedule in words, and its next times as instants and on the clock of its zone."""

    schedule: str
    timezone: str
    next_times: list[int]
    next: list[str]


@router.post("/schedules/preview")
async def preview(
    request: Request, workspaces: Workspaces, language: InLanguage, body: ScheduleRequest
) -> ScheduleAnswer:
    """Returns a schedule in words, and its next five times. Stores nothing."""
    state = state_of(request)
    name = next(iter(workspaces.identity.workspaces), state.settings.workspace)
    service = (await state.workspace(name)).automations
    return ScheduleAnswer.model_validate(
        service.preview(body.cron, body.dates, body.timezone, language)
    )


@router.post("/events/{name}", responses=MODEL_ERRORS, **EXCLUDE_NONE)
async def take(
    request: Request,
    workspaces: Workspaces,
    language: InLanguage,
    name: EventName,
    body: EventRequest,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=200, description="As `key`.")
    ] = None,
) -> EventAnswer:
    """Starts the caller's automations that wait for this event, each once; for admins, all. For
    editors.

    In the only workspace of the caller, or the one that `workspace` names. Keys are remembered for
    seven days.
    """
    place = await workspaces.one()
    state_of(request).limits.messages.spend(place.person.user_id)
    key = body.key or idempotency_key
    return await start_by_event(
        place.automations, name, body.data, place.person, key=key, language=language
    )
