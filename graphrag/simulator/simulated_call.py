"""One simulated call against a service that answers: played by a script, recorded and compared."""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from graphrag.client.errors import ServiceError
from graphrag.client.rest import NodiusClient
from graphrag.simulator import mu_law
from graphrag.simulator.call_script import CallScript
from graphrag.simulator.phone_simulator import PhoneSimulator
from graphrag.simulator.script_player import (
    CheckedExpectation,
    PlayedCall,
    ScriptPlayer,
    check_call,
)
from graphrag.simulator.twilio_line import CallAnswer, StreamPlace

BYTES_A_MS = mu_law.RATE_HZ // 1000
RECORDED_S = 30.0
"""So long after its end a call may take to be recorded as ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecording:
    """Both directions of a call in μ-law, from the same moment: what the caller and
    the agent said.
    """

    caller: bytes = b""
    agent: bytes = b""

    @property
    def length_ms(self) -> float:
        return max(len(self.caller), len(self.agent)) / BYTES_A_MS

    def wav(self) -> bytes:
        """Return a WAV file: the caller on the left, the agent on the right."""
        size = max(len(self.caller), len(self.agent))
        silence = bytes([mu_law.SILENCE])
        both = [mu_law.decode(side.ljust(size, silence)) for side in (self.caller, self.agent)]
        made = io.BytesIO()
        with wave.open(made, "wb") as file:
            file.setparams((2, 2, mu_law.RATE_HZ, size, "NONE", ""))
            file.writeframes(np.column_stack(both).astype("<i2").tobytes())
        return made.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCall:
    """What became of a call. `said`: by the telephone service in place of an agent. `document`: the
    call's record; `approvals`: what was proposed in it.
    """

    call_id: str | None
    said: str
    checked: tuple[CheckedExpectation, ...]
    document: Mapping[str, Any] = field(default_factory=dict[str, Any])
    approvals: tuple[Mapping[str, Any], ...] = ()
    recording: CallRecording = field(default_factory=CallRecording)

    @property
    def holds(self) -> bool:
        """Whether all that was expected was found."""
        return all(one.holds for one in self.checked)

    def to_document(self) -> dict[str, Any]:
        return {
            "callId": self.call_id,
            "holds": self.holds,
            "expectations": [asdict(one) for one in self.checked],
            "call": dict(self.document),
            "approvals": list(self.approvals),
            "seconds": round(self.recording.length_ms / 1000, 2),
        }


async def talk(client: NodiusClient, address: str, agent_id: str, caller: str | None) -> CallAnswer:
    """Begin a call by a token of the service at `address`, as its page
    does. Raises: ServiceError.
    """
    body = {"callerPhone": caller, "channel": "simulated"}
    made = await client.post("agents", agent_id, "talk", body=body)
    here = urlsplit(address)
    secure = "s" if here.scheme == "https" else ""
    url = made["url"] if "://" in made["url"] else f"ws{secure}://{here.netloc}{made['url']}"
    origin = f"http{secure}://{here.netloc}"
    place = StreamPlace(url=url, token=made["token"], call_sid=made["callSid"], origin=origin)
    return CallAnswer(verbs=("Connect",), call_id=made["callId"], stream=place)


async def simulate(
    script: CallScript, sounds: dict[str, bytes], client: NodiusClient, first: CallAnswer
) -> SimulatedCall:
    """Play a script in a call that was begun, and look at what the service has recorded of it.

    Raises: LineRefused, ServiceError, ServiceUnreachable.
    """
    if first.stream is None or first.call_id is None:
        refused = CheckedExpectation(what="the call is taken", found=", ".join(first.verbs))
        return SimulatedCall(call_id=None, said=first.said, checked=(refused,))
    call = PlayedCall(client, first.call_id)
    player = ScriptPlayer(script, call, sounds)
    async with PhoneSimulator(first.stream) as phone:
        later = await player.play(phone)
    document = await _recorded(call)
    approvals = await call.approvals()
    checked = [*player.checked]
    for expected in later:
        checked += check_call(expected, document, approvals)
    for strange in phone.strange[:1]:
        checked.append(CheckedExpectation(what="only messages that Twilio knows", found=strange))
    return SimulatedCall(
        call_id=first.call_id,
        said=first.said,
        document=document,
        approvals=tuple(approvals),
        recording=CallRecording(caller=bytes(phone.said), agent=bytes(phone.heard)),
        checked=tuple(checked),
    )


async def _recorded(call: PlayedCall) -> dict[str, Any]:
    """Return the record of a call once it has ended, or as it is when that takes too long."""
    document: dict[str, Any] = {}
    with suppress(TimeoutError, ServiceError):
        async with asyncio.timeout(RECORDED_S):
            while document.get("status") != "ended":
                await asyncio.sleep(0.1)
                document = await call.document()
    return document
