"""Telephone calls that are killed: each child of a process holds one, and ends at one write."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from datasources.base import Database
from graphrag.bridge.phone_messages import StreamStart
from graphrag.voice.dependencies import ChatTurns
from tests.support.agent_life import Api, Sent, compiled, document
from tests.support.chosen_database import database_in
from tests.support.clock import Clock
from tests.support.held_calls import FakeModel, FakePhone, VoiceExecutor
from tests.support.phone_calls import SID, PhoneServer, phone_server_on
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, Step
from tests.support.scripted_provider import call as call_of_tool
from tests.support.text_calls import RelayPhone, turns_of
from tests.support.waiting import until
from tools.http.fetch import HttpAnswer

ORDERED = "the model knows of the order"
QUESTIONS = ("Is it hot?", "Good.", "And big?", "How long?", "Where?", "Fine.", "Thank you.")


class FiledCallApi(Api):
    """An API that notes in a file what it was sent: it outlives who sends."""

    def __init__(self, file: Path) -> None:
        super().__init__(answers={"/calls": HttpAnswer(status=200, value={"id": "c-7"})})
        self.file = file

    def note(self, line: str) -> None:
        with self.file.open("a") as file:
            file.write(f"{line}\n")

    async def take(self, sent: Sent) -> HttpAnswer:
        self.note(f"{sent.path} {sent.key}")
        return await super().take(sent)


class NotingModel(FakeModel):
    """A model that notes when it is given a tool's output."""

    def __init__(self, api: FiledCallApi) -> None:
        super().__init__("m")
        self.api = api

    async def send(self, text: str) -> None:
        await super().send(text)
        if "function_call_output" in text:
            self.api.note(ORDERED)


def shop_document() -> dict[str, Any]:
    session = {
        "mode": "inline",
        "instructions": "Sell.",
        "tools": [{"type": "function", "name": "order"}],
    }
    return document(session=session)


def call_server_at(
    database: Database, path: Path, *, hours: int = 0, turns: ChatTurns | None = None
) -> tuple[PhoneServer, list[NotingModel]]:
    """Return a server that holds calls as it does, with a phone and a model of fakes."""
    clock = Clock()
    api = FiledCallApi(path.with_suffix(".api"))
    clock.now += hours * 3_600_000
    models: list[NotingModel] = []

    def new_side(_: str) -> NotingModel:
        models.append(NotingModel(api))
        return models[-1]

    agent = shop_document()
    if turns is not None:
        agent["voice"] = {**agent.get("voice", {}), "engine": "text"}
    server = phone_server_on(
        database, api, clock=clock, agent=compiled(agent), models=new_side, turns=turns
    )
    server.shop.executor_ = VoiceExecutor(api, clock)
    return server, models


async def hold_a_call(path: Path) -> None:
    """Hold a call from its webhook to what is owed for its end: an order is placed in it."""
    async with database_in(path) as database:
        server, models = call_server_at(database, path)
        _, token = await server.ring()
        call = await server.calls.take(token, SID)
        phone = FakePhone()
        start = StreamStart(stream_id="MZ1", call_sid=SID, token=token)
        serving = asyncio.create_task(server.calls.serve(call, phone, start))
        async with asyncio.timeout(30):
            while not (models and "session.update" in models[0].kinds()):  # noqa: ASYNC110 - it connects
                await asyncio.sleep(0.005)
            model = models[0]
            model.heard("A pizza, please.")
            model.answers("Gladly.", 200, ("order", {}))
            while not model.outputs():  # noqa: ASYNC110 - the tool runs
                await asyncio.sleep(0.005)
            phone.play()
            for words in QUESTIONS:
                model.heard(words)
                model.answers("Certainly.", 100)
                await asyncio.sleep(0.5)  # what was said is stored once a second
                phone.play()
            phone.hang_up()
            await serving
        await server.life.deliveries.wait_until_sent(timeout_s=10)


async def hold_a_text_call(path: Path) -> None:
    """Hold a call that the model of chats answers, to what is owed for its end: an order is
    placed in it.
    """
    api = FiledCallApi(path.with_suffix(".api"))

    def confirmed(_: Asked) -> Step:
        api.note(ORDERED)  # the tool's output is in the request
        return "Ordered."

    order = Says(text="Gladly.", calls=[call_of_tool("order")])
    script = ScriptedProvider(order, confirmed, *["Certainly."] * len(QUESTIONS))
    async with script as model, database_in(path) as database:
        server, _ = call_server_at(database, path, turns=turns_of(database, model))
        _, token = await server.ring()
        call = await server.calls.take(token, SID, "text")
        phone = RelayPhone()
        start = StreamStart(stream_id="VX1", call_sid=SID, token=token)
        serving = asyncio.create_task(server.calls.serve(call, phone, start))
        phone.hears("A pizza, please.")
        await until(lambda: "Ordered." in phone.words)
        phone.spoken()
        for number, words in enumerate(QUESTIONS, 1):
            phone.hears(words)
            await until(lambda said=number: phone.words.count("Certainly.") == said)
            phone.spoken()
            await asyncio.sleep(0.5)  # what was said is stored once a second
        phone.hang_up()
        await serving
        await server.life.deliveries.wait_until_sent(timeout_s=10)
