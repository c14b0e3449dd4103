"""Calls that only note what they are asked: the server's side of calls without
what stands behind.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from graphrag.voice.call_records import Call
from graphrag.voice.errors import StreamRefused
from graphrag.voice.follow_up import FollowUp
from graphrag.voice.recordings import StreamOpening
from server.open_workspaces import OpenWorkspaces
from tests.support.served import Served, served

PUBLIC = "https://voice.example.com"
TWILIO_TOKEN = "an auth token"


class FakeCalls:
    """Begins calls, takes each token once, and serves a call by sending back what comes.

    `refusal`: what `begin` raises. `afterwards`: what `after` and `after_dial` answer; `fallback`:
    who takes the callers that are refused. `dialled`: what `after_dial` was asked; `answers`: what
    `answered` was.
    """

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []
        self.tokens: dict[str, Call] = {}
        self.served: list[str] = []
        self.heard: list[str] = []
        self.refusal: Exception | None = None
        self.afterwards = FollowUp()
        self.fallback: FollowUp | None = None
        self.dialled: list[dict[str, Any]] = []
        self.answers: list[tuple[str, int]] = []
        self.before = StreamOpening()
        self.recordings: list[tuple[str, str]] = []

    async def begin(self, agent_id: str, **facts: Any) -> tuple[Call, str]:
        if self.refusal is not None:
            raise self.refusal
        self.begun.append({"agent_id": agent_id, **facts})
        call = Call(
            call_id=f"{len(self.begun):032x}", agent_id=agent_id, agent_version=1, workspace="default",
            channel=facts["channel"], call_sid=facts.get("call_sid"), started_time=len(self.begun),
        )  # fmt: skip
        token = f"default.{call.call_id}.{'s' * 22}"
        self.tokens[token] = call
        return call, token

    async def opening(self, call: Call) -> StreamOpening:
        return self.before

    async def recorded(self, call_id: str, report: Any) -> None:
        self.recordings.append((call_id, report["RecordingSid"]))

    async def take(self, token: str, call_sid: str | None, engine: str = "realtime") -> Call:
        call = self.tokens.pop(token, None)
        if call is None or call.engine != engine or call.call_sid not in (None, call_sid):
            raise StreamRefused
        return call

    async def after(self, call_id: str) -> FollowUp:
        return self.afterwards

    async def after_dial(self, call_id: str, **facts: Any) -> FollowUp:
        self.dialled.append({"call_id": call_id, **facts})
        return self.afterwards

    async def answered(self, call_id: str, number: int) -> FollowUp:
        self.answers.append((call_id, number))
        return self.afterwards

    async def passed_on(self, agent_id: str, call_sid: str | None) -> tuple[str, FollowUp] | None:
        return None if self.fallback is None else (f"{7:032x}", self.fallback)

    async def serve(self, call: Call, phone: Any, start: Any) -> None:
        self.served.append(call.call_id)
        async for text in phone.messages():
            self.heard.append(text)
            if text == "close":
                await phone.close(1003)
                return
            if text == "break":
                raise RuntimeError(text)
            await phone.send(text)


Answering = tuple[Served, FakeCalls]


@asynccontextmanager
async def with_calls(
    patch: pytest.MonkeyPatch, *, signed: bool = True, **settings: Any
) -> AsyncIterator[tuple[Served, FakeCalls]]:
    """Serve with such calls in the workspace `default`; `signed`: as requests of Twilio's."""
    fake = FakeCalls()

    async def calls(_: OpenWorkspaces, name: str) -> FakeCalls | None:
        return fake if name == "default" else None

    patch.setattr(OpenWorkspaces, "calls", calls)
    given = {"public_url": PUBLIC, "twilio_auth_token": TWILIO_TOKEN} if signed else {}
    async with served(**{**given, **settings}) as running:
        yield running, fake
