"""Wires the telephone calls of a workspace: records, slots and the model that speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, final
from urllib.parse import urlsplit

from graphrag.agent.tool_calls import ToolCalls
from graphrag.agent.turn_lease import TurnLeases
from graphrag.app.models import rules_provider
from graphrag.config import Settings
from graphrag.llm.usage_meter import UsageMeter
from graphrag.realtime.model_side import ModelSides
from graphrag.realtime.openai_side import OpenAISide
from graphrag.simulator.minds import RulesMind
from graphrag.simulator.realtime_double import RealtimeDouble
from graphrag.voice.call_metrics import CallMetrics, NoMetrics
from graphrag.voice.call_records import CallRecords
from graphrag.voice.call_service import CallService
from graphrag.voice.call_slots import CallSlots
from graphrag.voice.dependencies import CallDependencies, ChatTurns, RecordedAnswers
from tools.http.addresses import is_loopback

if TYPE_CHECKING:
    from graphrag.app.wiring import Services


def speaker_of(settings: Settings) -> Literal["openai", "double", "off"]:
    """Returns the service whose model speaks in calls: the setting, else OpenAI if it has a key."""
    if settings.realtime != "auto":
        return settings.realtime
    return "off" if realtime_key(settings) is None else "openai"


def realtime_key(settings: Settings) -> str | None:
    """Returns the key of the Realtime interface, None if there is none."""
    key = settings.realtime_api_key or settings.key_of("OPENAI_API_KEY")
    return key.get_secret_value() if key is not None else None


def calls_of(
    services: Services,
    *,
    turns: ChatTurns | None = None,
    slots: CallSlots | None = None,
    metrics: CallMetrics | None = None,
    recorded: RecordedAnswers | None = None,
) -> CallService:
    """Returns the calls of a workspace.

    `turns`: those of chats, for agents whose calls the model of chats answers. `slots`: those of
    the process, own ones by default. `recorded`: replaces the results of tools.
    """
    settings = services.settings
    stored = services.database.records(services.settings.workspace)
    deps = CallDependencies(
        records=CallRecords(stored, settings.workspace),
        threads=services.threads,
        leases=TurnLeases(stored),
        life=services.life,
        agents=services.agents,
        approvals=services.approvals,
        tools=ToolCalls(services.box, services.approvals, log=services.call_log),
        source=services.source,
        models=_models(settings),
        turns=turns,
        slots=slots or CallSlots(settings.voice.max_calls),
        retention_days=settings.call_retention_days,
        metrics=metrics or NoMetrics(),
        search=services.retriever.search,
        history=services.history,
        meter=services.meter if speaker_of(settings) == "openai" else UsageMeter(),
        recorded=recorded,
        is_priced=speaker_of(settings) == "openai" and not _is_here(settings.realtime_url),
    )
    return CallService(deps)


def _is_here(address: str) -> bool:
    """Returns True for an address on this machine, where a double or a local model answers."""
    return is_loopback(urlsplit(address).hostname or "")


def _models(settings: Settings) -> ModelSides | None:
    speaker = speaker_of(settings)
    key = realtime_key(settings)
    if speaker == "double":
        return _DoubleSide
    if speaker == "off" or key is None:
        return None
    return partial(OpenAISide, settings.realtime_url, key)


@final
class _DoubleSide:
    """A `ModelSide` with a Realtime double of its own, which answers by rules."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._double = RealtimeDouble(RulesMind(rules_provider()))
        self._side: OpenAISide | None = None

    async def open(self) -> None:
        """Starts the double and connects to it. Raises: RealtimeUnreachable."""
        await self._double.__aenter__()
        self._side = OpenAISide(self._double.url, "double", self._model)
        await self._side.open()

    async def send(self, text: str) -> None:
        """Sends a frame. Raises: RealtimeUnreachable."""
        assert self._side is not None, "open first"
        await self._side.send(text)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yields the events until the connection is closed."""
        if self._side is not None:
            async for event in self._side.events():
                yield event

    async def close(self) -> None:
        """Closes the connection and stops the double, also if neither was started."""
        if self._side is not None:
            await self._side.close()
        await self._double.__aexit__()
