"""The interface to a realtime model: sends text frames and yields parsed events. One connection
for each side.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from graphrag.agents.model_refusal import ModelRefusal


class _RealtimeError(Exception):
    """`place` is the host of the server, `why` a reason without secrets, `refusal` its answer."""

    def __init__(
        self, *, place: str, model: str, why: str, refusal: ModelRefusal | None = None
    ) -> None:
        super().__init__(f"{place}, model {model}: {why}")
        self.place = place
        self.model = model
        self.why = why
        self.refusal = refusal


class RealtimeUnreachable(_RealtimeError):
    """Raised when the model's server is unreachable; another attempt may succeed."""


class RealtimeRefused(_RealtimeError):
    """Raised when the key, model or address is refused, so that a retry is useless."""


class ModelSide(Protocol):
    """A connection to a realtime model."""

    async def open(self) -> None:
        """Connects. Raises: RealtimeRefused, RealtimeUnreachable."""
        ...

    async def send(self, text: str) -> None:
        """Sends a frame. Raises: RealtimeUnreachable."""
        ...

    def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yields the events until the connection is closed.

        Raises: RealtimeRefused if the server closes it for a permanent reason.
        """
        ...

    async def close(self) -> None:
        """Closes the connection. Does nothing if it was never opened."""
        ...


# Returns a new side for the name of a model.
ModelSides = Callable[[str], ModelSide]
