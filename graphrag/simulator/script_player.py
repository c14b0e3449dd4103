"""Plays a call script on a simulated telephone and checks its expectations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, final

from graphrag.client.rest import NodiusClient
from graphrag.simulator.call_script import CallScript, CallStep, Expected
from graphrag.simulator.phone_simulator import FRAME_S
from graphrag.simulator.speech import Speech, from_wav

Json = Mapping[str, Any]

ANSWERED_S = 0.8  # silence after which an answer counts as finished
POLL_S = 0.5
MAX_WAV_BYTES = 30_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExpectation:
    """A checked expectation. `found`: the actual value if the expectation does not hold."""

    what: str
    holds: bool = False
    found: str = ""


def check_call(
    expected: Expected, call: Json, approvals: Sequence[Json], told: str = ""
) -> list[CheckedExpectation]:
    """Checks expectations against the record of a call. Returns each with its result.

    `told`: what was read to those who answered transfers.
    """
    return [
        CheckedExpectation(what=what, holds=holds, found="" if holds else found)
        for what, holds, found in _checked(expected, call, approvals, told)
    ]


def _checked(
    expected: Expected, call: Json, approvals: Sequence[Json], told: str
) -> Iterator[tuple[str, bool, str]]:
    if expected.tool is not None:
        tools = [
            f"{tool['name']} {'ok' if tool.get('ok') else 'failed'}"
            for tool in call.get("tools", ())
        ]
        yield f"tool {expected.tool}", f"{expected.tool} ok" in tools, ", ".join(tools) or "no tool"
    entries = call.get("transcript", ())
    words = " ".join(entry["content"] for entry in entries if entry.get("role") == "assistant")
    for wanted in expected.words:
        yield f"words “{wanted}”", wanted.casefold() in words.casefold(), words[-300:] or "no words"
    nodes = [
        node_key(node) for source in call.get("sources", ()) for node in source.get("nodes", ())
    ]
    for wanted in expected.sources:
        yield f"source {wanted}", wanted in nodes, ", ".join(dict.fromkeys(nodes)) or "no source"
    if expected.approval is not None:
        states = [str(approval.get("status")) for approval in approvals]
        yield (
            f"approval {expected.approval}",
            expected.approval in states,
            ", ".join(states) or "none",
        )
    if expected.transfers is not None:
        attempts = [
            f"{attempt['destination']} {attempt.get('status') or 'open'}"
            for attempt in call.get("transfers", ())
        ]
        yield (
            f"transfers {', '.join(expected.transfers) or 'none'}",
            attempts == expected.transfers,
            ", ".join(attempts) or "none",
        )
    for wanted in expected.told:
        yield f"told “{wanted}”", wanted.casefold() in told.casefold(), told[-300:] or "nothing"
    for name, key in (("outcome", "outcome"), ("reason", "endReason")):
        if name in expected.model_fields_set:
            wanted = getattr(expected, name)
            is_there = call.get(key)
            yield f"{name} {wanted}", wanted == is_there, str(is_there)


def node_key(node: Any) -> str:
    """Returns the key of a node of `sources`, given as a text or an object."""
    return str(cast(Json, node).get("key", "")) if isinstance(node, Mapping) else str(node)


@final
class PlayedCall:
    """A call on the service, accessed by REST."""

    def __init__(self, client: NodiusClient, call_id: str) -> None:
        self._client = client
        self._call_id = call_id

    async def document(self) -> dict[str, Any]:
        """Returns the record of the call."""
        return await self._client.get("calls", self._call_id)

    async def approvals(self) -> list[dict[str, Any]]:
        """Returns the proposals of the call."""
        return (await self._client.get("approvals", asker=f"caller:{self._call_id}"))["approvals"]

    async def decide(self, approval_id: str, verdict: str) -> None:
        """Decides a proposal, as a reviewer."""
        await self._client.post("approvals", approval_id, "decision", body={"verdict": verdict})


class Telephone(Protocol):
    """A simulated telephone. `answers`: number of answers of the agent."""

    answers: int
    ended: asyncio.Event

    @property
    def playing_s(self) -> float:
        """Seconds for which the agent has been heard without a pause."""
        ...

    @property
    def quiet_s(self) -> float:
        """Seconds since the agent was last heard."""
        ...

    async def speak(self, words: str) -> None:
        """Speaks a line of the script. Returns when it was spoken or the stream has ended."""
        ...

    def press(self, digits: str) -> None:
        """Presses keys."""
        ...

    async def hang_up(self) -> None:
        """Ends the call as a caller does."""
        ...


@final
class ScriptPlayer:
    """Plays one script, on one telephone after another if the caller comes back to the agent.

    `checked`: the expectations checked so far. `told`: what was read to those who answered
    transfers.
    """

    def __init__(self, script: CallScript, call: PlayedCall) -> None:
        self._script = script
        self._call = call
        self._answers = 0
        self._left = list(script.steps)
        self._returns = -1  # streams after the first one, of which no step was played yet
        self.checked: list[CheckedExpectation] = []
        self.told: list[str] = []

    async def play(self, phone: Telephone) -> list[Expected]:
        """Plays the steps that are left, until the end of the stream.

        Returns the expectations to check after the end of the call.
        """
        left = self._left
        self._answers = 0
        self._returns += 1
        while any(step.expect is None for step in left) and not phone.ended.is_set():
            if left[0].returned is not None and self._returns == 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(phone.ended.wait(), self._script.wait_s)
                break
            step = left.pop(0)
            if await self._step(phone, step):
                continue
            number = len(self._script.steps) - len(left) - 1
            if number == 0 and step.wait == "answer":
                continue  # an agent without a greeting waits for the caller
            what = f"step {number}: {step.model_dump_json(exclude_unset=True, exclude={'replies'})}"
            waited = f"nothing came within {self._script.wait_s:g} s"
            self.checked.append(CheckedExpectation(what=what, found=waited))
            break
        return [step.expect for step in left if step.expect is not None]

    @property
    def waits_for_return(self) -> bool:
        """Whether the script has a step for a caller who did not come back to the agent."""
        return any(step.returned is not None for step in self._left)

    async def _step(self, phone: Telephone, step: CallStep) -> bool:
        """Plays one step. Returns False if it waited in vain."""
        match step:
            case CallStep(say=str(words)):
                if step.interrupt_after_s is not None and not await self._heard(
                    phone, step.interrupt_after_s
                ):
                    return False
                await phone.speak(words)
            case CallStep(dtmf=str(digits)):
                phone.press(digits)
            case CallStep(decide=str(verdict)):
                if not await self._until(self._has_proposal):
                    return False
                for approval in await self._call.approvals():
                    if approval["status"] == "pending":
                        await self._call.decide(approval["id"], verdict)
            case CallStep(returned=True):
                self._returns -= 1
                return True
            case CallStep(hangup=True):
                await phone.hang_up()
            case CallStep(wait="answer"):
                if not await self._answered(phone):
                    return False
            case CallStep(wait="proposal"):
                return await self._until(self._has_proposal)
            case CallStep(wait=float() | int() as seconds):
                with suppress(TimeoutError):
                    await asyncio.wait_for(phone.ended.wait(), seconds)
                return True
            case CallStep(expect=Expected() as expected):
                return await self._expect(expected)
            case _:
                raise AssertionError(step)
        self._answers = phone.answers
        return True

    async def _heard(self, phone: Telephone, seconds: float) -> bool:
        after = self._answers

        async def heard() -> bool:
            return phone.answers > after and phone.playing_s >= seconds

        return await self._until(heard, phone)

    async def _answered(self, phone: Telephone) -> bool:
        async def answered() -> bool:
            return phone.answers > self._answers and phone.quiet_s >= ANSWERED_S

        return await self._until(answered, phone)

    async def _has_proposal(self) -> bool:
        return any(approval["status"] == "pending" for approval in await self._call.approvals())

    async def _expect(self, expected: Expected) -> bool:
        results: list[CheckedExpectation] = []

        async def holds() -> bool:
            results[:] = check_call(
                expected,
                await self._call.document(),
                await self._call.approvals(),
                " ".join(self.told),
            )
            return all(result.holds for result in results)

        await self._until(holds)
        self.checked += results
        return True

    async def _until(
        self, holds: Callable[[], Awaitable[bool]], phone: Telephone | None = None
    ) -> bool:
        """Waits until `holds` returns True. Returns False after `wait_s`.

        With a `phone` the condition is checked every 20 ms, until the call has ended.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._script.wait_s):
                while not await holds():
                    if phone is not None and phone.ended.is_set():
                        break
                    await asyncio.sleep(POLL_S if phone is None else FRAME_S)
                return True
        return False


async def sounds_of(
    script: CallScript, speech: Speech, beside: Path | None = None
) -> dict[str, bytes]:
    """Returns the sound of each line, from a WAV file `beside` the script or by `speech`.

    Raises: OSError, UnreadableWav.
    """
    sounds: dict[str, bytes] = {}
    for step in script.steps:
        if step.say is not None and step.wav is None:
            sounds[step.say] = await speech.say(step.say, script.language)
        elif step.say is not None and step.wav is not None:
            sounds[step.say] = await asyncio.to_thread(_read_wav, (beside or Path()) / step.wav)
    return sounds


def _read_wav(file: Path) -> bytes:
    with file.open("rb") as opened:
        return from_wav(opened.read(MAX_WAV_BYTES))
