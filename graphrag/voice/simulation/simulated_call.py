"""One simulated call against a service that answers: dialled, played by a script, recorded and compared."""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from graphrag.client.errors import ServiceError
from graphrag.client.rest import NodiusClient
from graphrag.voice.simulation import mu_law
from graphrag.voice.simulation.call_script import CallScript
from graphrag.voice.simulation.phone_simulator import Cleared, PhoneSimulator
from graphrag.voice.simulation.script_player import CheckedExpectation, ScriptPlayer, check_call
from graphrag.voice.simulation.twilio_line import CallAnswer, StreamPlace, TwilioLine

BYTES_A_MS = mu_law.RATE_HZ // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecording:
    """Both directions of a call in μ-law, from the same moment: what the caller and the agent said."""

    caller: bytes = b""
    agent: bytes = b""

    @property
    def length_ms(self) -> float:
        return max(len(self.caller), len(self.agent)) / BYTES_A_MS

    def wav(self) -> bytes:
        """Return a WAV file: the caller on the left, the agent on the right."""
        size = max(len(self.caller), len(self.agent))
        both = [
            mu_law.decode(side.ljust(size, bytes([mu_law.SILENCE]))) for side in (self.caller, self.agent)
        ]
        made = io.BytesIO()
        with wave.open(made, "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(mu_law.RATE_HZ)
            file.writeframes(np.column_stack(both).astype("<i2").tobytes())
        return made.getvalue()


RECORDED_S = 30.0
"""So long after its end a call may take to be recorded as ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCall:
    """What became of a call. `document`: its record; `approvals`: what was proposed in it.

    `first`, `after`: what the service wanted done at its beginning and at its end.
    """

    first: CallAnswer
    checked: tuple[CheckedExpectation, ...]
    after: CallAnswer | None = None
    document: Mapping[str, Any] = field(default_factory=dict[str, Any])
    approvals: tuple[Mapping[str, Any], ...] = ()
    recording: CallRecording = field(default_factory=CallRecording)
    clears: tuple[Cleared, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all that was expected was found."""
        return all(one.holds for one in self.checked)

    def to_document(self) -> dict[str, Any]:
        return {
            "callId": self.first.call_id,
            "holds": self.holds,
            "expectations": [one.to_document() for one in self.checked],
            "call": dict(self.document),
            "approvals": list(self.approvals),
            "seconds": round(self.recording.length_ms / 1000, 2),
        }


class _Records:
    """The service's records of one call, by REST."""

    def __init__(self, client: NodiusClient, call_id: str) -> None:
        self._client, self._call_id = client, call_id

    async def call(self) -> dict[str, Any]:
        return await self._client.get("calls", self._call_id)

    async def approvals(self) -> list[dict[str, Any]]:
        return (await self._client.get("approvals", asker=f"caller:{self._call_id}"))["approvals"]

    async def decide(self, approval_id: str, *, approved: bool) -> None:
        verdict = {"verdict": "approve" if approved else "reject"}
        await self._client.post("approvals", approval_id, "decision", body=verdict)


class TalkLine:
    """A call by a token of the service at `address`, as its page begins one."""

    def __init__(self, client: NodiusClient, address: str, agent_id: str, caller: str | None) -> None:
        self._client, self._agent_id, self._caller = client, agent_id, caller
        self._address = urlsplit(address)

    async def dial(self) -> CallAnswer:
        talk = await self._client.post(
            "agents", self._agent_id, "talk", body={"callerPhone": self._caller, "channel": "simulated"}
        )
        here = self._address
        secure = "s" if here.scheme == "https" else ""
        url = talk["url"] if "://" in talk["url"] else f"ws{secure}://{here.netloc}{talk['url']}"
        origin = f"http{secure}://{here.netloc}"
        place = StreamPlace(url=url, token=talk["token"], call_sid=talk["callSid"], origin=origin)
        return CallAnswer(verbs=("Connect",), call_id=talk["callId"], stream=place)

    async def after(self, address: str) -> CallAnswer:
        raise NotImplementedError


async def simulate(
    script: CallScript, sounds: dict[str, bytes], client: NodiusClient, line: TwilioLine | TalkLine
) -> SimulatedCall:
    """Call, play a script, and ask the service at the end what comes next and what it has recorded.

    Raises: WebhookFailed, LineRefused, ServiceError, ServiceUnreachable.
    """
    first = await line.dial()
    if first.stream is None or first.call_id is None:
        refused = CheckedExpectation(what="the call is taken", holds=False, found=", ".join(first.verbs))
        return SimulatedCall(first=first, checked=(refused,))
    records = _Records(client, first.call_id)
    player = ScriptPlayer(script, records, sounds)
    async with PhoneSimulator(first.stream) as phone:
        later = await player.play(phone)
    after = None if first.after is None else await line.after(first.after)
    document, approvals = await _recorded(records), await records.approvals()
    checked = [*player.checked]
    for expected in later:
        checked += check_call(expected, document, approvals)
    for strange in phone.strange[:1]:
        what = "only messages that Twilio knows"
        checked.append(CheckedExpectation(what=what, holds=False, found=strange))
    return SimulatedCall(
        first=first,
        after=after,
        document=document,
        approvals=tuple(approvals),
        recording=CallRecording(caller=bytes(phone.said), agent=bytes(phone.heard)),
        clears=tuple(phone.clears),
        checked=tuple(checked),
    )


async def _recorded(records: _Records) -> dict[str, Any]:
    """Return the record of a call once it has ended, or as it is when that takes too long."""
    document: dict[str, Any] = {}
    try:
        async with asyncio.timeout(RECORDED_S):
            while document.get("status") != "ended":
                await asyncio.sleep(0.1)
                document = await records.call()
    except (TimeoutError, ServiceError):
        pass
    return document
