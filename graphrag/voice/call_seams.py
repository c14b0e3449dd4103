"""The seams between a call's life as it is stored and what serves it while it runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from typing import TYPE_CHECKING, Any, Protocol

from graphrag.agent.thread_agent import EndReason
from graphrag.agent.thread_store import Thread
from graphrag.agent.turn_lease import TurnLease
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.voice.call_records import Call
from graphrag.voice.signals import CallOver

if TYPE_CHECKING:
    from graphrag.voice.media_messages import StreamStart
    from graphrag.voice.phone_side import PhoneSide


class FollowedCall(Protocol):
    """What happens in a call, for those who watch."""

    def add(self, message: dict[str, Any]) -> None: ...

    def follow(self) -> AsyncGenerator[dict[str, Any]]:
        """Yield what happened from the beginning on, then what happens, until `close`."""
        ...

    def close(self) -> None: ...


class OpensCall(Protocol):
    """Gets ready what a call needs before its stream comes: its session, its model side."""

    def begin(self) -> None: ...

    async def close(self) -> None:
        """Leave it: nobody came."""
        ...


class ServesCall(Protocol):
    """One call from the start of its stream on."""

    @property
    def feed(self) -> FollowedCall: ...

    @property
    def waiting(self) -> Collection[str]:
        """The ids of its proposals that nobody decided, as far as it knows."""
        ...

    async def serve(self) -> CallOver:
        """Hold the call; return how it ended, once both sides are closed and its tools have finished."""
        ...

    def end_soon(self, reason: EndReason) -> None:
        """Let the agent say goodbye, then end."""
        ...

    async def decided(self, approval_id: str) -> None:
        """Tell the model what was decided about a proposal; nothing while it waits."""
        ...


class MakesCalls(Protocol):
    """Makes what serves calls, of a model and of all that a workspace gives its agents."""

    def opening(self, call: Call, agent: CompiledAgent, thread: Thread) -> OpensCall:
        """`thread` is the draft of the call's; nothing is stored of it yet."""
        ...

    def server(
        self, call: Call, opening: Any, phone: PhoneSide, start: StreamStart, hold: TurnLease
    ) -> ServesCall:
        """`opening` is one that `opening` made."""
        ...
