"""The engine of calls that the model of chats answers, while the telephone service recognises and
speaks.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from graphrag.bridge import signals
from graphrag.bridge.signals import Action, Signal
from graphrag.llm.registry import OFFLINE
from graphrag.relay.relay_dialogue import RelayDialogue
from graphrag.relay.relay_messages import RelayMessages
from graphrag.voice.call_engine import EngineParts, OpenCall
from graphrag.voice.call_thread import CallThread
from graphrag.voice.call_tools import CallTools
from graphrag.voice.call_turns import CallTurns

# in the first paragraph of answers without a model, which is not for callers
_NOTICE: Final = "NODIUS_LLM_BASE_URL"


@final
class TextEngine:
    """A `CallEngine` for the protocol of ConversationRelay."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._turns: CallTurns | None = None
        self.reader = RelayMessages(started=True)

    async def open(self) -> OpenCall:
        """Stores the conversation. Returns its parts. Raises: SettingsError; see `CallEngine`."""
        parts, setup = self._parts, self._parts.setup
        deps, recorder = setup.deps, parts.recorder
        assert deps.turns is not None, "such a call is not begun"
        stored, session, prompt = await setup.answered()
        thread = CallThread(
            setup.agent, stored, deps.life, deps.threads, parts.hold, recorder.transcript
        )
        tools = CallTools(deps=deps, thread=thread, hold=parts.hold, show=recorder.show)
        self._turns = CallTurns(parts, deps.turns, thread, tools, prompt)
        earlier = setup.earlier
        if earlier is not None:
            tools.continue_from(earlier.call)
        elif (welcome := setup.agent.document.voice.speech.welcome) is not None:
            self._turns.welcome(welcome)
        settings = setup.settings(stored, session, prompt, tools.box.offered(tools.role))
        dialogue = RelayDialogue(
            settings,
            asyncio.get_running_loop().time(),
            speaks_welcome=not setup.is_by_telephone,
            entries_before=len(thread.part.transcript),
            skips=_NOTICE if self._turns.provider_name == OFFLINE else None,
        )
        return OpenCall(dialogue=dialogue, thread=thread, tools=tools)

    def begin(self) -> None:
        """Does nothing: the model is asked by actions."""

    def do(self, action: Action) -> None:
        """Asks the model, stops it, or cuts what it remembers."""
        assert self._turns is not None, "open first"
        match action:
            case signals.AskModel():
                self._turns.ask(action)
            case signals.StopModel():
                self._turns.stop()
            case signals.CutAnswer():
                self._turns.cut(action)
            case _:
                pass

    def fed(self, signal: Signal, now: float) -> None:
        """Does nothing."""
