"""The engine of calls with a Realtime model: the bridge passes sound between phone and model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, final

from graphrag.bridge import signals
from graphrag.bridge.bridge import Bridge
from graphrag.bridge.phone_messages import PhoneMessages
from graphrag.bridge.signals import Action, Signal
from graphrag.llm.usage_meter import CallUsage, Payer
from graphrag.realtime.model_messages import object_of, tokens_of
from graphrag.voice.call_engine import AnswerTokens, EngineParts, OpenCall
from graphrag.voice.call_metrics import AgentMetrics
from graphrag.voice.call_thread import CallThread
from graphrag.voice.call_tools import CallTools
from graphrag.voice.model_connection import ModelConnection

# events of the model that report usage
PAID: Final = ("response.done", "conversation.item.input_audio_transcription.completed")
MEASURED_FRAMES: Final = 50  # every 50th frame is measured


@final
class RealtimeEngine:
    """A `CallEngine` for the protocols of Media Streams and of the Realtime interface."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._deps = parts.setup.deps
        self._model = ModelConnection(parts.setup, parts.take, parts.spawn)
        self._frames = 0
        self.reader = PhoneMessages(started=True)

    async def open(self) -> OpenCall:
        """Stores the conversation. Returns its parts. Raises: see `CallEngine`."""
        parts, deps, setup = self._parts, self._deps, self._parts.setup
        stored, session, prompt = await setup.answered()
        recorder = parts.recorder
        thread = CallThread(
            setup.agent, stored, deps.life, deps.threads, parts.hold, recorder.transcript
        )
        tools = CallTools(deps=deps, thread=thread, hold=parts.hold, show=recorder.show)
        if setup.earlier is not None:
            tools.continue_from(setup.earlier.call)
        settings = setup.settings(stored, session, prompt, tools.box.offered(tools.role))
        now = asyncio.get_running_loop().time()
        wall = deps.threads.clock() / 1000 - now
        bridge = Bridge(settings, parts.start.stream_id, now, wall=wall)
        return OpenCall(dialogue=bridge, thread=thread, tools=tools)

    def begin(self) -> None:
        """Starts reading the connection that was opened for the call."""
        self._model.begin()

    def do(self, action: Action) -> None:
        """Sends frames to the model, or connects to it again."""
        match action:
            case signals.SendModel():
                self._model.put(action.text)
            case signals.Reconnect():
                self._model.reconnect(action.after_s)
            case _:
                pass

    def fed(self, signal: Signal, now: float) -> None:
        """Measures frames of sound, and records usage."""
        if isinstance(signal, signals.PhoneAudio):
            self._frames += 1
            if self._frames % MEASURED_FRAMES == 0 and self._model.queue is not None:
                name = "voice_frame_added_seconds"
                agent_id = self._parts.setup.agent.agent_id
                metrics = AgentMetrics(self._deps.metrics, agent_id)
                self._model.queue.measure(metrics, name, since=now)
        elif isinstance(signal, signals.ModelEvent) and signal.event["type"] in PAID:
            self._used(signal.event)

    def _used(self, event: Mapping[str, Any]) -> None:
        """Adds the usage of a response or a transcription to the call and its workspace."""
        setup = self._parts.setup
        openai = setup.agent.document.openai
        is_answer = event["type"] == "response.done"
        holder = object_of(event.get("response")) if is_answer else event
        if not is_answer and "usage" not in holder:
            return  # older servers do not count transcriptions
        tokens = tokens_of(object_of(holder.get("usage")))
        model = openai.model if is_answer else openai.input_audio_transcription.model
        cost = tokens.cost_usd(model) if self._deps.is_priced else None
        self._parts.recorder.used(
            AnswerTokens(
                audio_in=tokens.audio_in,
                audio_out=tokens.audio_out,
                text_in=tokens.text_in,
                text_out=tokens.text_out,
                cost_usd=cost,
            )
        )
        call = CallUsage(
            kind="chat",
            provider="openai",
            model=model,
            tokens=tokens.report(),
            cost_usd=cost,
            payer=Payer(workspace=setup.thread.workspace),
        )
        self._deps.meter.record(call)
