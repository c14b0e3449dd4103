"""Answers Twilio when a call comes in, and when its stream has ended, in TwiML.

Once the signature holds, the answer is always 200: anything else is read to the caller as an error.
Whatever a text holds stays text.
"""

from __future__ import annotations

import logging
import re
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode
from xml.etree.ElementTree import Element, SubElement, tostring

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from graphrag.agents.errors import AgentError, AgentNotRunning
from graphrag.voice.call_after import AfterCall
from graphrag.voice.call_errors import CallBlocked, CallError, CallsFull
from server.auth import mark_signed
from server.bodies import Id
from server.error_responses import VOICE_ERRORS
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
    "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}}
}
router = APIRouter(prefix="/voice", tags=["calls"], responses=XML_ANSWER | VOICE_ERRORS)

STREAM_PATH = "/voice/stream"
MAX_FIELDS = 200
_E164 = re.compile(r"\+[1-9][0-9]{6,14}")
_SID = re.compile(r"[A-Za-z0-9]{1,64}")
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold, however they are written."""
WITHHELD = frozenset(("+266696687", "+7378742833", "+2562533", "+8656696", "+86282452253"))
"""What a keypad makes of ANONYMOUS, RESTRICTED, BLOCKED, UNKNOWN and UNAVAILABLE."""


@router.post("/after/{call_id}", response_class=Response, openapi_extra=FORM_BODY)
async def after(
    request: Request, call_id: Id, workspace: Annotated[str, Query(min_length=1, max_length=200)] = ""
) -> Response:
    """Tell Twilio how to go on with a call whose stream has ended."""
    state, _ = await _signed(request)
    try:
        calls = await state.calls(workspace)
        return _say("") if calls is None else _going_on(await calls.after(call_id))
    except Exception as exc:
        log.exception("voice_after_failed", extra={"call_id": call_id, "error": type(exc).__name__})
        return _say("")


@router.post("/{workspace}/{agent_id}", response_class=Response, openapi_extra=FORM_BODY)
async def incoming(request: Request, workspace: Id, agent_id: Id) -> Response:
    """Tell Twilio what to do with a call to an agent: connect, refuse, or say why not."""
    state, form = await _signed(request)
    try:
        return await _begun(request, state, workspace, agent_id, dict(form))
    except CallBlocked as blocked:
        if not blocked.message:
            return _reject()
        return _say(blocked.message, voice=blocked.voice, language=blocked.language)
    except (AgentError, CallError) as exc:
        log.info("call_refused", extra={"agent_id": agent_id, "error": type(exc).__name__})
        return _reject(busy=isinstance(exc, AgentNotRunning | CallsFull))
    except Exception as exc:  # the database may be away; the caller may try again
        log.exception("voice_webhook_failed", extra={"agent_id": agent_id, "error": type(exc).__name__})
        return _reject(busy=True)


async def _begun(
    request: Request, state: ServerState, workspace: str, agent_id: str, form: dict[str, str]
) -> Response:
    calls, call_sid = await state.calls(workspace), form.get("CallSid", "")
    if calls is None or not _SID.fullmatch(call_sid):
        return _reject()
    begun, token = await calls.begin(
        agent_id,
        caller_phone=number_of(form.get("From", "")),
        called_phone=number_of(form.get("To", "")),
        channel="phone",
        call_sid=call_sid,
    )
    base = state.settings.public_url or f"http://{request.headers.get('host', '')}"
    base = base.rstrip("/")
    call_id = quote(begun.call_id, safe="")
    answer = Element("Response")
    # When the stream has ended, Twilio asks `action` how to go on.
    action = f"{base}/voice/after/{call_id}?{urlencode({'workspace': workspace})}"
    connecting = SubElement(answer, "Connect", action=action, method="POST")
    stream = SubElement(connecting, "Stream", url=f"ws{base.removeprefix('http')}{STREAM_PATH}")
    # Name and value of a parameter have 500 characters together: the token only.
    SubElement(stream, "Parameter", name="token", value=token)
    return _xml(answer)


def _going_on(after: AfterCall) -> Response:
    if after.destination is None:
        return _say(after.text, voice=after.voice, language=after.language)
    answer = Element("Response")
    kind = "Sip" if after.destination.startswith("sip:") else "Number"
    SubElement(SubElement(answer, "Dial"), kind).text = after.destination
    return _xml(answer)


def _reject(*, busy: bool = False) -> Response:
    """Take no call: with the tone of an engaged line, or as a number that is not there."""
    answer = Element("Response")
    SubElement(answer, "Reject", {"reason": "busy"} if busy else {})
    return _xml(answer)


def _say(text: str, *, voice: str | None = None, language: str | None = None) -> Response:
    """Say a sentence, then hang up; an empty one is not said."""
    answer = Element("Response")
    if text.strip():
        options = {"voice": voice, "language": language}
        SubElement(answer, "Say", {n: v for n, v in options.items() if v is not None}).text = text
    SubElement(answer, "Hangup")
    return _xml(answer)


def number_of(given: str) -> str | None:
    """Return a caller's number in E.164; None where it was withheld or is none."""
    found = given.strip()
    return found if _E164.fullmatch(found) and found not in WITHHELD else None


async def _signed(request: Request) -> tuple[ServerState, Form]:
    """Return the server and the form of a request of Twilio's. Raises: SignatureRefused, ForeignPage."""
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
        state.metrics.counted("voice_errors", code="signature")
        raise
    mark_signed(request)
    return state, form


def _xml(answer: Element) -> Response:
    for element in answer.iter():
        element.text = _NO_XML.sub("", element.text) if element.text else element.text
        element.attrib = {name: _NO_XML.sub("", value) for name, value in element.attrib.items()}
    content = tostring(answer, encoding="utf-8", xml_declaration=True)
    return Response(content, media_type=MEDIA_TYPE)
