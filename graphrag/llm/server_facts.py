"""Asks an OpenAI-compatible server what it serves, and how large the model's window is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

_WINDOW_FIELDS = ("max_model_len", "loaded_context_length", "n_ctx", "context_length", "max_context_length")
"""Of vLLM, LM Studio, llama.cpp, Ollama and OpenRouter, LM Studio where nothing is loaded."""
_BESIDE = ("/props", "/api/ps", "/api/v0/models")
"""Where llama.cpp, Ollama and LM Studio say it, beside the common interface."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The models' names, and the window in tokens where the server says it."""

    models: tuple[str, ...]
    window: int | None


async def read_facts(get: Callable[[str], Awaitable[Any]], base_url: str, model: str) -> ServerFacts:
    """Ask for the models, then for the window where they do not say it.

    `get` returns the JSON of an address; what it raises for the list of models is raised.
    """
    base = base_url.rstrip("/")
    listed = list(_entries(await get(f"{base}/models")))
    names = tuple(str(entry["id"]) for entry in listed if "id" in entry)
    window = _window(listed, model)
    root = base.removesuffix("/v1")
    for path in _BESIDE if window is None else ():
        try:
            window = _window(list(_entries(await get(root + path))), model)
        except Exception:  # noqa: BLE001 - a server that has no such address answers as it likes
            continue
        if window is not None:
            break
    return ServerFacts(models=names, window=window)


def _entries(raw: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects that may describe a model: of a list, or the one there is."""
    if not isinstance(raw, dict):
        return
    found = cast(dict[str, Any], raw)
    inner: Any = found.get("data") or found.get("models") or [found.get("default_generation_settings")]
    for entry in cast(list[Any], inner if isinstance(inner, list) else []):
        if isinstance(entry, dict):
            yield cast(dict[str, Any], entry)


def _window(entries: list[dict[str, Any]], model: str) -> int | None:
    named = [entry for entry in entries if model in (entry.get("id"), entry.get("name"), entry.get("model"))]
    for entry in named or (entries if len(entries) == 1 else []):
        for name in _WINDOW_FIELDS:
            value = entry.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 256:
                return value
    return None
