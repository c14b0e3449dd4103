"""Plays a script on a telephone: says, waits, interrupts, decides, and compares what is expected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from graphrag.voice.simulation.call_script import CallScript, CallStep, Expected
from graphrag.voice.simulation.phone_simulator import FRAME_S, PhoneSimulator
from graphrag.voice.simulation.speech import Speech, from_wav

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExpectation:
    """One thing that was expected. `found`: what there was instead, where it does not hold."""

    what: str
    holds: bool
    found: str = ""

    def to_document(self) -> dict[str, Any]:
        return {"what": self.what, "holds": self.holds, "found": self.found}


def check_call(expected: Expected, call: Json, approvals: Sequence[Json]) -> list[CheckedExpectation]:
    """Return each thing that is expected and whether the record of the call shows it."""
    return list(_checked(expected, call, approvals))


def _checked(expected: Expected, call: Json, approvals: Sequence[Json]) -> Iterator[CheckedExpectation]:
    if expected.tool is not None:
        tools = [f"{tool['name']} {'ok' if tool.get('ok') else 'failed'}" for tool in call.get("tools", ())]
        yield _one(f"tool {expected.tool}", f"{expected.tool} ok" in tools, ", ".join(tools) or "no tool")
    words = " ".join(entry["content"] for entry in said_by(call, "assistant"))
    for wanted in expected.words:
        yield _one(f"words “{wanted}”", wanted.casefold() in words.casefold(), words[-300:] or "no words")
    nodes = [node_key(node) for source in call.get("sources", ()) for node in source.get("nodes", ())]
    for wanted in expected.sources:
        yield _one(f"source {wanted}", wanted in nodes, ", ".join(dict.fromkeys(nodes)) or "no source")
    if expected.approval is not None:
        states = [str(approval.get("status")) for approval in approvals]
        yield _one(f"approval {expected.approval}", expected.approval in states, ", ".join(states) or "none")
    for name, key in (("outcome", "outcome"), ("reason", "endReason")):
        if name in expected.model_fields_set:
            wanted, is_there = getattr(expected, name), call.get(key)
            yield _one(f"{name} {wanted}", wanted == is_there, str(is_there))


def _one(what: str, holds: bool, found: str) -> CheckedExpectation:
    return CheckedExpectation(what=what, holds=holds, found="" if holds else found)


def said_by(call: Json, role: str) -> list[Json]:
    """Return the entries of a call's transcript of one speaker."""
    return [entry for entry in call.get("transcript", ()) if entry.get("role") == role]


def node_key(node: Any) -> str:
    """Return the key of a node of `sources`, which is written alone or with more about it."""
    return str(cast(Json, node).get("key", "")) if isinstance(node, Mapping) else str(node)


ANSWERED_S = 0.8
"""After so much silence the agent is taken to have finished."""
LOOK_S = 0.5
MAX_WAV_BYTES = 30_000_000


class CallEvidence(Protocol):
    """What the player asks the service about its call."""

    async def call(self) -> dict[str, Any]:
        """Return the record of the call."""
        ...

    async def approvals(self) -> list[dict[str, Any]]:
        """Return what was proposed in the call."""
        ...

    async def decide(self, approval_id: str, *, approved: bool) -> None:
        """Decide a proposal, as a reviewer."""
        ...


class _Stuck(Exception):
    """Raised when what a step waits for does not come."""


class ScriptPlayer:
    """Plays one script. `checked`: what was expected, as far as it was looked at."""

    def __init__(self, script: CallScript, records: CallEvidence, sounds: dict[str, bytes]) -> None:
        self._script, self._records, self._sounds = script, records, sounds
        self._answers = 0
        self.checked: list[CheckedExpectation] = []

    async def play(self, phone: PhoneSimulator) -> list[Expected]:
        """Play all steps; return what can be looked at only when the call has ended."""
        steps = list(enumerate(self._script.steps))
        while steps:
            if phone.ended.is_set():
                break
            number, step = steps[0]
            if step.expect is not None and all(later.expect is not None for _, later in steps):
                break
            steps.pop(0)
            try:
                await self._step(phone, step)
            except _Stuck:
                if number == 0 and step.wait == "answer":
                    continue  # an agent without a greeting waits for the caller
                what = f"step {number}: {step.model_dump_json(exclude_unset=True, exclude={'replies'})}"
                waited = f"nothing came within {self._script.wait_s:g} s"
                self.checked.append(CheckedExpectation(what=what, holds=False, found=waited))
                break
        return [step.expect for _, step in steps if step.expect is not None]

    async def _step(self, phone: PhoneSimulator, step: CallStep) -> None:
        match step:
            case CallStep(say=str(words)):
                await self._say(phone, words, step.interrupt_after_s)
            case CallStep(dtmf=str(digits)):
                phone.press(digits)
                self._answers = phone.answers
            case CallStep(decide=str(verdict)):
                await self._until(self._has_proposal)
                for approval in await self._records.approvals():
                    if approval["status"] == "pending":
                        await self._records.decide(approval["id"], approved=verdict == "approve")
                self._answers = phone.answers
            case CallStep(hangup=True):
                await phone.hang_up()
            case CallStep(wait="answer"):
                await self._until_answered(phone)
            case CallStep(wait="proposal"):
                await self._until(self._has_proposal)
            case CallStep(wait=float() | int() as seconds):
                with suppress(TimeoutError):
                    await asyncio.wait_for(phone.ended.wait(), seconds)
            case CallStep(expect=Expected() as expected):
                await self._expect(expected)
            case _:
                raise AssertionError(step)

    async def _say(self, phone: PhoneSimulator, words: str, interrupt_after_s: float | None) -> None:
        if interrupt_after_s is not None:
            after = self._answers

            async def heard() -> bool:
                return phone.answers > after and phone.playing_s >= interrupt_after_s

            await self._until(heard, phone)
        await phone.say(self._sounds[words])
        self._answers = phone.answers

    async def _until_answered(self, phone: PhoneSimulator) -> None:
        async def answered() -> bool:
            return phone.answers > self._answers and phone.quiet_s >= ANSWERED_S

        await self._until(answered, phone)
        self._answers = phone.answers

    async def _has_proposal(self) -> bool:
        return any(approval["status"] == "pending" for approval in await self._records.approvals())

    async def _expect(self, expected: Expected) -> None:
        found: list[CheckedExpectation] = []

        async def holds() -> bool:
            found[:] = check_call(expected, await self._records.call(), await self._records.approvals())
            return all(one.holds for one in found)

        with suppress(_Stuck):
            await self._until(holds)
        self.checked += found

    async def _until(self, holds: Callable[[], Awaitable[bool]], phone: PhoneSimulator | None = None) -> None:
        """Wait; with a `phone` it is looked each 20 ms, and an ended call is not waited for."""
        try:
            async with asyncio.timeout(self._script.wait_s):
                while not await holds():
                    if phone is not None and phone.ended.is_set():
                        return
                    await asyncio.sleep(LOOK_S if phone is None else FRAME_S)
        except TimeoutError:
            raise _Stuck from None


async def sounds_of(script: CallScript, speech: Speech, beside: Path | None = None) -> dict[str, bytes]:
    """Return what is heard of each line: by a WAV file `beside` the script, or by `speech`.

    Raises: OSError, UnreadableWav.
    """
    sounds: dict[str, bytes] = {}
    for step in script.steps:
        if step.say is None:
            continue
        if step.wav is None:
            sounds[step.say] = await speech.say(step.say, script.language)
        else:
            file = (beside or Path()) / step.wav
            sounds[step.say] = await asyncio.to_thread(_read_wav, file)
    return sounds


def _read_wav(file: Path) -> bytes:
    with file.open("rb") as opened:
        return from_wav(opened.read(MAX_WAV_BYTES))
