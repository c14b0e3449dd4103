"""Simulates Twilio's requests: sends signed forms, reads the TwiML of the service, opens streams.

Sources: Twilio's "Security" (signatures), "TwiML for Programmable Voice", and for the reports of a
`<Dial>` https://www.twilio.com/docs/voice/twiml/dial.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from xml.etree import ElementTree

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin

TIMEOUT_S = 15.0  # Twilio's limit for an answer
SIGNATURE_HEADER = "X-Twilio-Signature"
ACCOUNT = "AC" + "0" * 32
NOTHING: Mapping[str, str] = {}
CALLER, CALLED = "+33612345678", "+33100000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlace:
    """The address and credentials of a stream.

    `signing_key`: signs the opening request, as Twilio does. `origin`: sent by a page. `relay`: the
    attributes of ConversationRelay, None for a media stream.
    """

    url: str
    token: str
    call_sid: str
    signing_key: str | None = None
    origin: str | None = None
    relay: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DialPlace:
    """Somebody to call. `answered`: the address to request when they pick up. `after`: the address
    to request when the attempt has ended.
    """

    number: str
    answered: str | None
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """A parsed TwiML answer.

    `verbs`: its verbs in order. `after`: the address to request after the stream; its path names
    the call. `spoken`: the text of its `<Say>` verbs. `dial`: whom it calls.
    """

    verbs: tuple[str, ...]
    call_id: str | None = None
    spoken: str = ""
    rejected: str | None = None
    stream: StreamPlace | None = None
    after: str | None = None
    dial: DialPlace | None = None


class LineRefused(Exception):
    """Raised when the service refuses a call or its stream. `reason`: of the service or network."""

    def __init__(self, *, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"no call at {address}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TwilioLine:
    """One call to the webhook at `url`. `key`: auth token of the account, None for no signature."""

    url: str
    key: str | None = None
    caller: str = CALLER
    call_sid: str = field(default_factory=lambda: "CA" + secrets.token_hex(16))

    async def dial(self) -> CallAnswer:
        """Announces a call. Raises: LineRefused."""
        return await self._ask(self.url, "ringing")

    async def after(self, address: str) -> CallAnswer:
        """Announces the end of the stream. Raises: LineRefused."""
        return await self._ask(address, "in-progress")

    async def picked_up(self, address: str) -> CallAnswer:
        """Announces that somebody answered; the answer is played to them. Raises: LineRefused."""
        return await self._ask(address, "in-progress")

    async def dialled(self, address: str, status: str, seconds: int) -> CallAnswer:
        """Reports how an attempt to reach somebody has ended. Raises: LineRefused."""
        talked = {"DialCallDuration": str(seconds)} if seconds else {}
        return await self._ask(address, "in-progress", {"DialCallStatus": status, **talked})

    async def _ask(
        self, address: str, status: str, report: Mapping[str, str] = NOTHING
    ) -> CallAnswer:
        form = {
            "AccountSid": ACCOUNT,
            "ApiVersion": "2010-04-01",
            "CallSid": self.call_sid,
            "CallStatus": status,
            "Direction": "inbound",
            "From": self.caller,
            "To": CALLED,
            **report,
        }
        headers = (
            {} if self.key is None else {SIGNATURE_HEADER: signature_of(address, form, self.key)}
        )
        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
                answer = await client.post(address, data=form, headers=headers)
        except httpx2.HTTPError as exc:
            raise LineRefused(address=address, reason=str(exc) or type(exc).__name__) from exc
        if answer.status_code != 200:
            raise LineRefused(address=address, reason=f"{answer.status_code} {answer.text[:300]}")
        try:
            return self._read(ElementTree.fromstring(answer.text))
        except ElementTree.ParseError as exc:
            raise LineRefused(address=address, reason=f"no TwiML: {exc}") from exc

    def _read(self, root: ElementTree.Element) -> CallAnswer:
        connect = root.find("Connect")
        relay = root.find("Connect/ConversationRelay")
        stream = root.find("Connect/Stream") if relay is None else relay
        reject = root.find("Reject")
        place = None
        dial = root.find("Dial")
        called = None if dial is None else next(iter(dial), None)
        after = None if connect is None else connect.get("action")
        if stream is not None:
            token = stream.find("Parameter[@name='token']")
            place = StreamPlace(
                url=stream.get("url", ""),
                token="" if token is None else token.get("value", ""),
                call_sid=self.call_sid,
                signing_key=self.key,
                relay=None if relay is None else dict(relay.attrib),
            )
        return CallAnswer(
            verbs=tuple(verb.tag for verb in root),
            call_id=after and urlsplit(after).path.rpartition("/")[2],
            spoken=" ".join(verb.text or "" for verb in root.iter("Say")),
            rejected=None if reject is None else reject.get("reason", "rejected"),
            stream=place,
            after=after,
            dial=None
            if dial is None or called is None
            else DialPlace(
                number=called.text or "",
                answered=called.get("url"),
                after=dial.get("action", ""),
            ),
        )


async def opened_stream(place: StreamPlace) -> ClientConnection:
    """Returns the open connection to a stream, as Twilio opens it. Raises: LineRefused."""
    key = place.signing_key
    headers = None if key is None else {SIGNATURE_HEADER: signature_of(place.url, {}, key)}
    try:
        return await connect(
            place.url,
            additional_headers=headers,
            origin=None if place.origin is None else Origin(place.origin),
            compression=None,
            proxy=None,
            max_size=None,
        )
    except (OSError, WebSocketException, TimeoutError) as exc:
        raise LineRefused(address=place.url, reason=str(exc) or type(exc).__name__) from exc


def signature_of(url: str, form: Mapping[str, str], key: str) -> str:
    """Returns Twilio's signature of a form: of the address and all fields, sorted by name."""
    signed = url + "".join(name + form[name] for name in sorted(form))
    return base64.b64encode(hmac.new(key.encode(), signed.encode(), hashlib.sha1).digest()).decode(
        "ascii"
    )
