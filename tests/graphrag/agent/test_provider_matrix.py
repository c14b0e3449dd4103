"""Conversations with every provider whose rules about history are published, by the
real client packages.

The rules stand in `tests/data/provider_quirks.toml`, with their sources; a server of
loopback keeps them.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from datasources.base import Database
from datasources.mock import open_nba
from graphrag.agent.events import Completed, Event, Failed, ProposalPending, TurnStarted
from graphrag.approvals import Reject
from graphrag.llm.anthropic import AnthropicProvider
from graphrag.llm.base import LLMProvider
from graphrag.llm.openai_compatible import OpenAICompatibleProvider
from graphrag.llm.registry import ENTRIES, ProviderChoice, RetryPolicy
from tests.graphrag.llm.wire import KEY
from tests.support.agents import Setting, only, setting_on, shown
from tests.support.provider_rules import SAID, Quirk, RuledModel, Step, quirks
from tests.support.scripted_http import ScriptedServer

ROWS = quirks()
SEARCH: Step = ("search_nodes", {"query": "players"})
PROPOSE: Step = (
    "propose_create_node",
    {"typeKey": "log-node", "key": "$log", "sheet": "0", "reason": "asked"},
)
QUICK = (
    "deepseek-reasoning",
    "gemini-signature",
    "mistral-order-and-ids",
    "anthropic-signed-thinking",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A provider that keeps its rules, and an agent that asks it."""

    model: RuledModel
    setting: Setting

    async def ask(self, thread_id: str | None, *steps: Step) -> list[Event]:
        self.model.steps.extend(steps)
        events = await self.setting.ask("Where are players?", thread_id)
        assert not self.model.steps, (
            f"never asked for: {self.model.steps}; refused: {self.model.refusals}"
        )
        return events

    async def says(self, thread_id: str | None, *steps: Step) -> str:
        """Ask, expect an answer, and return the conversation's key."""
        events = await self.ask(thread_id, *steps)
        assert isinstance(events[-1], Completed), (events[-1], self.model.refusals)
        assert shown(events).endswith(SAID)
        return only(events, TurnStarted).thread_id


def choice_of(quirk: Quirk, url: str) -> ProviderChoice:
    return ProviderChoice(
        entry=ENTRIES[quirk.provider],
        model="a-model",
        base_url=url if quirk.form == "anthropic" else f"{url}/v1",
        key=SecretStr(KEY),
        max_tokens=1_000,
        api="responses" if quirk.form == "responses" else "chat",
        retry=RetryPolicy(attempts=1),
        context_window=128_000,
    )


@asynccontextmanager
async def place_of(name: str, database: Database) -> AsyncGenerator[Place]:
    model = RuledModel(ROWS[name])
    with ScriptedServer(answers_all=model) as server:
        choice = choice_of(model.quirk, server.url)
        kind = AnthropicProvider if model.quirk.form == "anthropic" else OpenAICompatibleProvider
        provider: LLMProvider = kind(choice)
        try:
            yield Place(model, setting_on(database, provider))
        finally:
            await provider.aclose()


def other_form(name: str) -> str:
    """Return a provider of the other wire format that has rules of its own."""
    return "deepseek-reasoning" if ROWS[name].form == "anthropic" else "anthropic-signed-thinking"


def rows(*quick: str) -> Sequence[Any]:
    """Return all rows, of which these run in the quick suite."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in ROWS]


@pytest.mark.parametrize("name", rows(*QUICK))
async def test_a_conversation_goes_on_by_the_rules_of_its_provider(name: str) -> None:
    """Tool rounds, a decided proposal, an empty and a refused answer, one after the other,
    then a message.
    """
    async with open_nba("default") as database, place_of(name, database) as place:
        thread = await place.says(None, SEARCH, "text")
        await place.says(thread, SEARCH, ("search_nodes", {"query": "error"}), "text")
        asked = await place.ask(thread, PROPOSE)
        assert isinstance(asked[-1], ProposalPending), asked[-1]
        place.model.steps.append("text")
        decided = await place.setting.resume(thread, decision=Reject("not now"))
        assert isinstance(decided[-1], Completed), (decided[-1], place.model.refusals)
        await place.says(thread, "empty", SEARCH, "text")
        assert isinstance((await place.ask(thread, "refused"))[-1], Failed)
        await place.says(thread, "text")
        check_refusals(place)


@pytest.mark.parametrize("name", rows(*QUICK[:2]))
async def test_a_conversation_goes_to_another_provider_and_back(name: str) -> None:
    async with (
        open_nba("default") as database,
        place_of(name, database) as place,
        place_of(other_form(name), database) as other,
    ):
        thread = await place.says(None, SEARCH, "text")
        await other.says(thread, SEARCH, "text")
        await place.says(thread, SEARCH, "text")
        await other.says(thread, "text")
        check_refusals(place)
        check_refusals(other)


@pytest.mark.parametrize("name", rows())
@pytest.mark.parametrize(
    "bad", ["functions.search_nodes", "search_nodes<|channel|>commentary", "", "é" * 80]
)
async def test_a_name_that_no_api_takes_makes_no_later_message_fail(name: str, bad: str) -> None:
    async with (
        open_nba("default") as database,
        place_of(name, database) as place,
        place_of(other_form(name), database) as other,
    ):
        thread = await place.says(None, (bad, {"query": "players"}), "text")
        await place.says(thread, "text")
        await other.says(thread, "text")
        check_refusals(place)


def check_refusals(place: Place) -> None:
    """A known provider refuses nothing; a server known by its address alone teaches
    each rule once.
    """
    is_known = place.model.quirk.provider not in (
        "compatible",
        "vllm",
        "anthropic",
        "groq",
        "openai",
    )
    assert len(place.model.refusals) <= (0 if is_known else 2), place.model.refusals
    assert len(set(place.model.refusals)) == len(place.model.refusals)
