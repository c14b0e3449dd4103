"""Says who answers: the name, the model and the window that every provider has."""

from __future__ import annotations


class Identified:
    """Units: `context_window` in tokens."""

    def __init__(self, *, name: str, model: str, context_window: int) -> None:
        self._name, self._model, self._context_window = name, model, context_window

    @property
    def name(self) -> str:
        return self._name

    @property
    def model(self) -> str:
        return self._model

    @property
    def context_window(self) -> int:
        return self._context_window
