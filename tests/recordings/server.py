"""Runs the service through the states that the page shows, and takes what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE, GRAPH, service
from tests.support.waiting import until

REPORT = "One node logs errors as warnings."
AUTOMATION = {
    "graphKey": GRAPH,
    "name": "Nightly check",
    "message": "Look.",
    "cron": "0 2 * * *",
    "mode": "propose",
}


def proposes(level: str) -> Says:
    given = {**CHANGE, "changes": {"data.level": level}}
    return Says(text="I propose this.", calls=[call("propose_update_node", given)])


def finishes() -> Says:
    return Says(calls=[call("finish_automation", {"outcome": "findings", "report": REPORT})])


@asynccontextmanager
async def served(*steps: Says) -> AsyncGenerator[tuple[Recorder, ScriptedProvider]]:
    """Yields a service without sign-in, and the model that plays these steps in it."""
    async with (
        ScriptedProvider(*steps) as model,
        service(model, auth_secret=None) as running,
        running.client() as client,
    ):
        yield Recorder(client), model


async def recorded() -> Mapping[str, Any]:
    """Returns the recordings by name: answers of the service, as they came."""
    return {"automations": await automations(), "approvals": await approvals()}


class Recorder:
    """One service with one person, who has signed in nowhere, and what they are answered."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def get(self, path: str) -> Any:
        return (await self._client.get(path)).raise_for_status().json()

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return (await self._client.post(path, json=body)).raise_for_status().json()

    async def run(self, session: str, **wanted: Any) -> Any:
        """Returns a run once it stands so."""
        while True:
            found = await self.get(f"/api/sessions/{session}")
            if all(found.get(name) == value for name, value in wanted.items()):
                return found
            await asyncio.sleep(0.02)


async def automations() -> dict[str, Any]:
    """A run in every state that lasts: at work, paused for a conversation,
    waiting for people, ended.
    """
    return {**await paused(), **await decided()}


async def paused() -> dict[str, Any]:
    """A run at work, and the same run while a conversation about its graph goes on."""
    held = asyncio.Event()
    talking = asyncio.Event()
    states = dict[str, Any]()
    steps = [
        Says(text="Looking", held=held, reading=(1, 2)),
        Says(text="Yes", held=talking, reading=(1, 2)),
    ]
    async with served(*steps) as (place, model):
        made = (await place.post("/api/automations", AUTOMATION))["id"]
        states["new"] = await place.get("/api/automations")
        run = (await place.post(f"/api/automations/{made}/run"))["sessionId"]
        await until(lambda: len(model.requests) == 1)
        states["working_run"] = await place.run(run, phase="calling_ai")
        asked = {"graphKey": GRAPH, "message": "Is it so?"}
        conversation = asyncio.create_task(place.post("/api/ai/chat", asked))
        states["paused_run"] = await place.run(run, endReason="SUSPENDED")
        await until(lambda: len(model.requests) == 2)
        states["paused"] = await place.get("/api/automations")
        while (
            states["paused"]["automations"][0].get("lastSessionId") is None
        ):  # counted a bit later
            await asyncio.sleep(0.02)
            states["paused"] = await place.get("/api/automations")
        talking.set()
        await conversation
    return states


async def decided() -> dict[str, Any]:
    """A run that proposed something: while it waits for people, and when it has ended."""
    states = dict[str, Any]()
    async with served(proposes("warning"), finishes()) as (place, _):
        made = (await place.post("/api/automations", AUTOMATION))["id"]
        run = (await place.post(f"/api/automations/{made}/run"))["sessionId"]
        states["waiting_run"] = await place.run(run, phase="waiting_validation")
        states["waiting"] = await place.get("/api/automations")
        (approval,) = (await place.get("/api/approvals?status=pending"))["approvals"]
        await place.post(f"/api/approvals/{approval['id']}/decision", {"verdict": "approve"})
        states["ended_run"] = await place.run(run, phase="completed")
        states["ended"] = await place.get("/api/automations")
    return states


async def approvals() -> dict[str, Any]:
    """A proposal in every state that a person can bring it into."""
    levels = ("warning", "notice", "info", "debug")
    async with served(*[proposes(level) for level in levels]) as (place, _):
        ids: list[str] = []
        for _ in levels:
            answer = await place.post("/api/ai/chat", {"graphKey": GRAPH, "message": "Change it."})
            ids.append(answer["approvals"][0]["id"])
        listed = await place.get("/api/approvals")
        for at, verdict in ((0, "approve"), (1, "reject")):
            body = {"verdict": verdict, "feedback": "As was said."}
            await place.post(f"/api/approvals/{ids[at]}/decision", body)
        await place.post(f"/api/approvals/{ids[3]}/comments", {"text": "Why?"})
        await place.post(f"/api/graphs/{GRAPH}/undo", {"approvalId": ids[0]})
        return {"proposed": listed, "decided": await place.get("/api/approvals")}
