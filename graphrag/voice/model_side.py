"""The seam to a realtime model: text frames in, parsed events out, one connection a side."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from graphrag.agents.model_refusal import ModelRefusal


class _RealtimeError(Exception):
    """`place` is the server's host, `why` a reason without any secret, `refusal` what
    the server said.
    """

    def __init__(
        self, *, place: str, model: str, why: str, refusal: ModelRefusal | None = None
    ) -> None:
        super().__init__(f"{place}, model {model}: {why}")
        self.place = place
        self.model = model
        self.why = why
        self.refusal = refusal


class RealtimeUnreachable(_RealtimeError):
    """Raised when the model's server cannot be reached or has gone; another try may work."""


class RealtimeRefused(_RealtimeError):
    """Raised when the key, the model or the address is refused, as another try would be."""


class ModelSide(Protocol):
    """A connection to a realtime model."""

    async def open(self) -> None:
        """Connect. Raises: RealtimeRefused, RealtimeUnreachable."""
        ...

    async def send(self, text: str) -> None:
        """Send a frame. Raises: RealtimeUnreachable."""
        ...

    def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yields the events as they come; ends when the connection is gone.

        Raises: RealtimeRefused where the server closes it for a reason that holds for
        every other one.
        """
        ...

    async def close(self) -> None:
        """Close the connection; also one that was never opened."""
        ...


ModelSides = Callable[[str], ModelSide]
"""Returns a new side for the name of a model."""
