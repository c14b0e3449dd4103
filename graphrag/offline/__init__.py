"""The answerer without a language model: rules that read through the same tools as a model would."""

from __future__ import annotations

from graphrag.offline.provider import OfflineProvider

__all__ = ["OfflineProvider"]
