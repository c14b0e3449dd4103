"""Answers Twilio in TwiML when a call arrives, and when its stream has ended.

If the signature is valid, an answer about a caller always has the status 200: Twilio reads any
other answer to the caller as an error.
"""

from __future__ import annotations

import logging
import re
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from graphrag.agents.errors import AgentError, AgentNotRunning
from graphrag.voice import twiml
from graphrag.voice.errors import CallBlocked, CallError, CallsFull
from graphrag.voice.follow_up import FollowUp
from graphrag.voice.recordings import StreamOpening
from server.auth import mark_signed
from server.bodies import Id
from server.error_schemas import VOICE_ERRORS
from server.errors import ServerError
from server.requests import state_of
from server.server_state import ServerState
from server.voice.twilio_signature import Form, TwilioSignature

log = logging.getLogger(__name__)

MEDIA_TYPE = "text/xml"
XML_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "TwiML"}
}
FORM_BODY: dict[str, Any] = {
    "requestBody": {
        "content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
    }
}
router = APIRouter(prefix="/voice", tags=["calls"], responses=XML_ANSWER | VOICE_ERRORS)

STREAM_PATH = "/voice/stream"
Attempt = Annotated[int | None, Query(ge=0, le=1000, description="Number of the attempt.")]
RELAY_PATH = "/voice/relay"
MAX_FIELDS = 200
_E164 = re.compile(r"\+[1-9][0-9]{6,14}")
_SID = re.compile(r"[A-Za-z0-9]{1,64}")
# ANONYMOUS, RESTRICTED, BLOCKED, UNKNOWN and UNAVAILABLE as numbers of a keypad.
WITHHELD = frozenset(("+266696687", "+7378742833", "+2562533", "+8656696", "+86282452253"))


@router.post("/after/{call_id}", response_class=Response, openapi_extra=FORM_BODY)
async def after(
    request: Request,
    call_id: Id,
    workspace: Annotated[str, Query(min_length=1, max_length=200)] = "",
) -> Response:
    """Tells Twilio how to continue a call whose stream has ended."""
    state, _ = await _signed(request)
    try:
        calls = await state.backend.workspaces.calls(workspace)
        if calls is None:
            return _xml(twiml.say(""))
        return _going_on(request, state, workspace, call_id, await calls.after(call_id))
    except Exception as exc:
        log.exception("voice_after_failed", extra={"call_id": call_id, "error": type(exc).__name__})
        return _xml(twiml.say(""))


@router.post("/dialled/{call_id}", response_class=Response, openapi_extra=FORM_BODY)
async def dialled(
    request: Request,
    call_id: Id,
    workspace: Annotated[str, Query(min_length=1, max_length=200)] = "",
    agent: Annotated[str, Query(max_length=80)] = "",
    tried: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006 - FastAPI copies it
    attempt: Attempt = None,
) -> Response:
    """Tells Twilio how to continue with a caller whose transfer has ended."""
    state, form = await _signed(request)
    try:
        calls = await state.backend.workspaces.calls(workspace)
        if calls is None:
            return _xml(twiml.say(""))
        after = await calls.after_dial(
            call_id, agent_id=agent, tried=tried, number=attempt, report=dict(form)
        )
        return _going_on(request, state, workspace, call_id, after)
    except Exception as exc:
        log.exception("voice_after_failed", extra={"call_id": call_id, "error": type(exc).__name__})
        return _xml(twiml.say(""))


@router.post("/answered/{call_id}", response_class=Response, openapi_extra=FORM_BODY)
async def answered(
    request: Request,
    call_id: Id,
    workspace: Annotated[str, Query(min_length=1, max_length=200)] = "",
    attempt: Attempt = None,
) -> Response:
    """Tells Twilio what to read to the person who answered a transfer, before they are connected
    with the caller.
    """
    state, _ = await _signed(request)
    try:
        calls = await state.backend.workspaces.calls(workspace)
        if calls is None or attempt is None:
            return _xml(twiml.whisper(""))
        said = await calls.answered(call_id, attempt)
        return _xml(twiml.whisper(said.text, voice=said.voice, language=said.language))
    except Exception as exc:  # they are connected all the same
        log.exception("voice_after_failed", extra={"call_id": call_id, "error": type(exc).__name__})
        return _xml(twiml.whisper(""))


@router.post("/recorded/{call_id}", response_class=Response, openapi_extra=FORM_BODY)
async def recorded(
    request: Request,
    call_id: Id,
    workspace: Annotated[str, Query(min_length=1, max_length=200)] = "",
) -> Response:
    """Stores the id, status and length of a recording that Twilio keeps. Its sound is not
    fetched.
    """
    state, form = await _signed(request)
    try:
        calls = await state.backend.workspaces.calls(workspace)
        if calls is not None:
            await calls.recorded(call_id, dict(form))
    except Exception as exc:
        log.exception("voice_after_failed", extra={"call_id": call_id, "error": type(exc).__name__})
        return Response(status_code=503)  # Twilio may report it again
    return _xml(twiml.whisper(""))


@router.post("/{workspace}/{agent_id}", response_class=Response, openapi_extra=FORM_BODY)
async def incoming(request: Request, workspace: Id, agent_id: Id) -> Response:
    """Tells Twilio how to handle a call to an agent: connect it, refuse it, or say why not."""
    state, form = await _signed(request)
    try:
        return await _begun(request, state, workspace, agent_id, dict(form))
    except CallBlocked as blocked:
        if not blocked.message:
            return _xml(twiml.reject())
        return _xml(twiml.say(blocked.message, voice=blocked.voice, language=blocked.language))
    except (AgentNotRunning, CallsFull) as exc:
        log.info("call_refused", extra={"agent_id": agent_id, "error": type(exc).__name__})
        return await _passed_on(request, state, workspace, agent_id, dict(form))
    except (AgentError, CallError) as exc:
        log.info("call_refused", extra={"agent_id": agent_id, "error": type(exc).__name__})
        return _xml(twiml.reject())
    except Exception as exc:  # the database may be away; the caller may try again
        log.exception(
            "voice_webhook_failed", extra={"agent_id": agent_id, "error": type(exc).__name__}
        )
        return _xml(twiml.reject(busy=True))


async def _begun(
    request: Request, state: ServerState, workspace: str, agent_id: str, form: dict[str, str]
) -> Response:
    calls = await state.backend.workspaces.calls(workspace)
    call_sid = form.get("CallSid", "")
    if calls is None or not _SID.fullmatch(call_sid):
        return _xml(twiml.reject())
    begun, token = await calls.begin(
        agent_id,
        caller_phone=number_of(form.get("From", "")),
        called_phone=number_of(form.get("To", "")),
        channel="phone",
        call_sid=call_sid,
    )
    opening = await calls.opening(begun)
    return _connected(request, state, workspace, begun.call_id, token, opening)


def _connected(
    request: Request,
    state: ServerState,
    workspace: str,
    call_id: str,
    token: str,
    opening: StreamOpening,
) -> Response:
    """Returns the answer that opens a stream with a token."""
    base = _base(request, state)
    place = f"{quote(call_id, safe='')}?{urlencode({'workspace': workspace})}"
    path = STREAM_PATH if opening.relay is None else RELAY_PATH
    return _xml(
        twiml.connect(
            f"ws{base.removeprefix('http')}{path}",
            f"{base}/voice/after/{place}",
            token,
            relay=opening.relay,
            notice=opening.notice,
            voice=opening.voice,
            language=opening.language,
            recorded=f"{base}/voice/recorded/{place}" if opening.records else None,
        )
    )


def _base(request: Request, state: ServerState) -> str:
    """Returns the address that Twilio reaches."""
    return (state.settings.public_url or f"http://{request.headers.get('host', '')}").rstrip("/")


def _going_on(
    request: Request, state: ServerState, workspace: str, call_id: str, after: FollowUp
) -> Response:
    if after.token is not None:
        opening = StreamOpening(records=after.starts_recording, relay=after.relay)
        return _connected(request, state, workspace, call_id, after.token, opening)
    if after.destination is None:
        return _xml(twiml.say(after.text, voice=after.voice, language=after.language))
    numbered = {} if after.number is None else {"attempt": after.number}
    about = {"workspace": workspace, "agent": after.agent_id, "tried": after.tried, **numbered}
    base = f"{_base(request, state)}/voice"
    place = quote(call_id, safe="")
    asked = f"{base}/answered/{place}?{urlencode({'workspace': workspace, **numbered})}"
    dial = twiml.dial(
        after.destination,
        after.timeout_s,
        action=f"{base}/dialled/{place}?{urlencode(about, doseq=True)}",
        answered=asked if numbered else None,
        waits=after.waits,
        stops_recording=after.stops_recording,
    )
    return _xml(dial)


async def _passed_on(
    request: Request, state: ServerState, workspace: str, agent_id: str, form: dict[str, str]
) -> Response:
    """Returns the answer for a caller whom nobody here can serve now: another destination, or the
    busy tone.
    """
    try:
        calls = await state.backend.workspaces.calls(workspace)
        found = None if calls is None else await calls.passed_on(agent_id, form.get("CallSid"))
    except Exception as exc:  # the database may be away; the caller may try again
        log.exception(
            "voice_webhook_failed", extra={"agent_id": agent_id, "error": type(exc).__name__}
        )
        return _xml(twiml.reject(busy=True))
    if found is None:
        return _xml(twiml.reject(busy=True))
    log.info("call_passed_on", extra={"agent_id": agent_id})
    return _going_on(request, state, workspace, *found)


def number_of(given: str) -> str | None:
    """Returns a caller's number in E.164, None if it was withheld or is invalid."""
    number = given.strip()
    return number if _E164.fullmatch(number) and number not in WITHHELD else None


async def _signed(request: Request) -> tuple[ServerState, Form]:
    """Returns the server and the form of a request by Twilio. Raises: SignatureRefused,
    ForeignPage.
    """
    state = state_of(request)
    body = await request.body()
    try:
        text = body.decode()
        form = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:  # no form, or too many fields: nothing that Twilio has signed
        form = []
    try:
        TwilioSignature.of(state.settings).check(request, form)
    except ServerError:
        state.monitoring.metrics.counted("voice_errors", code="signature")
        raise
    mark_signed(request, None)
    return state, form


def _xml(content: bytes) -> Response:
    return Response(content, media_type=MEDIA_TYPE)
