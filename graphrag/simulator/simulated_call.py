"""Plays a simulated call against a running service, and checks its record."""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from graphrag.client.errors import ServiceError
from graphrag.client.rest import NodiusClient
from graphrag.simulator import mu_law
from graphrag.simulator.call_script import CallScript, Expected
from graphrag.simulator.phone_simulator import PhoneSimulator
from graphrag.simulator.relay_phone import RelayPhone
from graphrag.simulator.script_player import (
    CheckedExpectation,
    PlayedCall,
    ScriptPlayer,
    check_call,
)
from graphrag.simulator.twilio_line import CallAnswer, StreamPlace, TwilioLine

BYTES_A_MS = mu_law.RATE_HZ // 1000
# of a call that no TwiML describes
TALK_ATTRIBUTES = {"dtmfDetection": "true", "events": "speaker-events tokens-played"}
RECORDED_S = 30.0  # for the service to record the end of a call
MAX_STREAMS = 5  # of one call: its caller may come back after transfers
MAX_DIALS = 50
TALKED_S = 20  # length of a conversation with somebody who answered a transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecording:
    """Both directions of a call in μ-law, from the same moment."""

    caller: bytes = b""
    agent: bytes = b""

    @property
    def length_ms(self) -> float:
        """Length of the longer direction."""
        return max(len(self.caller), len(self.agent)) / BYTES_A_MS

    def wav(self) -> bytes:
        """Returns a WAV file with the caller on the left and the agent on the right."""
        size = max(len(self.caller), len(self.agent))
        silence = bytes([mu_law.SILENCE])
        both = [mu_law.decode(side.ljust(size, silence)) for side in (self.caller, self.agent)]
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setparams((2, 2, mu_law.RATE_HZ, size, "NONE", ""))
            file.writeframes(np.column_stack(both).astype("<i2").tobytes())
        return buffer.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCall:
    """The result of a simulated call.

    `spoken`: by the telephone service in place of an agent. `document`: record of the call.
    `approvals`: its proposals. `recording`: empty if the telephone service recognises and speaks.
    """

    call_id: str | None
    spoken: str
    checked: tuple[CheckedExpectation, ...]
    document: Mapping[str, Any] = field(default_factory=dict[str, Any])
    approvals: tuple[Mapping[str, Any], ...] = ()
    recording: CallRecording = field(default_factory=CallRecording)
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether all expectations hold."""
        return all(expectation.holds for expectation in self.checked)

    def to_document(self) -> dict[str, Any]:
        """Returns the result as JSON for `--json`."""
        return {
            "callId": self.call_id,
            "holds": self.holds,
            "expectations": [asdict(expectation) for expectation in self.checked],
            "call": dict(self.document),
            "approvals": list(self.approvals),
            "seconds": round(self.seconds, 2),
        }


async def talk(client: NodiusClient, address: str, agent_id: str, caller: str | None) -> CallAnswer:
    """Begins a call with a token of the service at `address`, as its page does.

    Raises: ServiceError.
    """
    body = {"callerPhone": caller, "channel": "simulated"}
    opened = await client.post("agents", agent_id, "talk", body=body)
    here = urlsplit(address)
    secure = "s" if here.scheme == "https" else ""
    url = opened["url"] if "://" in opened["url"] else f"ws{secure}://{here.netloc}{opened['url']}"
    origin = f"http{secure}://{here.netloc}"
    place = StreamPlace(
        url=url,
        token=opened["token"],
        call_sid=opened["callSid"],
        origin=origin,
        relay=None if opened.get("engine") != "text" else TALK_ATTRIBUTES,
    )
    return CallAnswer(verbs=("Connect",), call_id=opened["callId"], stream=place)


async def simulate(
    script: CallScript,
    sounds: dict[str, bytes],
    client: NodiusClient,
    first: CallAnswer,
    line: TwilioLine | None = None,
) -> SimulatedCall:
    """Plays a script in a ringing call, and checks the record of the service.

    `line`: asks the service how a call goes on after its stream; without it nobody asks.
    Raises: LineRefused, ServiceError, ServiceUnreachable.
    """
    if first.stream is None or first.call_id is None:
        refused = CheckedExpectation(what="the call is taken", found=", ".join(first.verbs))
        return SimulatedCall(call_id=None, spoken=first.spoken, checked=(refused,))
    call = PlayedCall(client, first.call_id)
    player = ScriptPlayer(script, call)
    phones: list[PhoneSimulator | RelayPhone] = []
    spoken = [first.spoken]
    dials = iter(script.dials)
    answer = first
    later: list[Expected] = []
    while answer.stream is not None and len(phones) < MAX_STREAMS:
        place = answer.stream
        phone = PhoneSimulator(place, sounds) if place.relay is None else RelayPhone(place)
        phones.append(phone)
        async with phone:
            later = await player.play(phone)
        if line is not None and answer.after is not None:
            answer = await _followed(line, await line.after(answer.after), dials, player.told)
            spoken.append(answer.spoken)
        else:
            break
    document = await _recorded(call)
    approvals = await call.approvals()
    checked = [*player.checked]
    for expected in later:
        checked += check_call(expected, document, approvals, " ".join(player.told))
    if player.waits_for_return:
        checked.append(CheckedExpectation(what="the caller comes back", found="the call ended"))
    for strange in [each for phone in phones for each in phone.strange][:1]:
        checked.append(CheckedExpectation(what="only messages that Twilio knows", found=strange))
    return SimulatedCall(
        call_id=first.call_id,
        spoken=" ".join(words for words in spoken if words),
        document=document,
        approvals=tuple(approvals),
        recording=_recording(phones),
        seconds=sum(phone.length_s for phone in phones),
        checked=tuple(checked),
    )


async def _followed(
    line: TwilioLine, answer: CallAnswer, dials: Iterator[str], told: list[str]
) -> CallAnswer:
    """Calls whom the service names, each with the next result of the script, until it names nobody.

    Adds to `told` what is read to those who answer. Returns the last answer. Raises: LineRefused.
    """
    for _ in range(MAX_DIALS):
        if answer.dial is None:
            break
        result = next(dials, "no-answer")
        if result == "answered" and answer.dial.answered is not None:
            told.append((await line.picked_up(answer.dial.answered)).spoken)
        is_answered = result == "answered"
        status = "completed" if is_answered else result
        answer = await line.dialled(answer.dial.after, status, TALKED_S if is_answered else 0)
    return answer


def _recording(phones: Sequence[PhoneSimulator | RelayPhone]) -> CallRecording:
    sounding = [phone for phone in phones if isinstance(phone, PhoneSimulator)]
    return CallRecording(
        caller=b"".join(bytes(phone.spoken) for phone in sounding),
        agent=b"".join(bytes(phone.heard) for phone in sounding),
    )


async def _recorded(call: PlayedCall) -> dict[str, Any]:
    """Returns the record of a call once it has ended, at the latest after `RECORDED_S`."""
    document: dict[str, Any] = {}
    with suppress(TimeoutError, ServiceError):
        async with asyncio.timeout(RECORDED_S):
            while document.get("status") != "ended":
                await asyncio.sleep(0.1)
                document = await call.document()
    return document
