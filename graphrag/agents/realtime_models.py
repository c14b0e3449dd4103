"""Names of the Realtime models and transcribers that OpenAI publishes.

Source: the types of the package `openai`, which a test compares. They are not imported, as that
takes longer than a document check may take.
"""

from __future__ import annotations

from typing import Final

REALTIME_MODELS: Final = (
    "gpt-realtime",
    "gpt-realtime-1.5",
    "gpt-realtime-2",
    "gpt-realtime-2.1",
    "gpt-realtime-2.1-mini",
    "gpt-realtime-2025-08-28",
    "gpt-4o-realtime-preview",
    "gpt-4o-realtime-preview-2024-10-01",
    "gpt-4o-realtime-preview-2024-12-17",
    "gpt-4o-realtime-preview-2025-06-03",
    "gpt-4o-mini-realtime-preview",
    "gpt-4o-mini-realtime-preview-2024-12-17",
    "gpt-realtime-mini",
    "gpt-realtime-mini-2025-10-06",
    "gpt-realtime-mini-2025-12-15",
    "gpt-audio-1.5",
    "gpt-audio-mini",
    "gpt-audio-mini-2025-10-06",
    "gpt-audio-mini-2025-12-15",
)
TRANSCRIBERS: Final = (
    "whisper-1",
    "gpt-transcribe",
    "gpt-live-transcribe",
    "gpt-4o-mini-transcribe",
    "gpt-4o-mini-transcribe-2025-12-15",
    "gpt-4o-transcribe",
    "gpt-4o-transcribe-diarize",
    "gpt-realtime-whisper",
)
# transcribers that take a list of keywords, and one that takes neither keywords nor a prompt
TAKE_KEYWORDS: Final = frozenset(("gpt-transcribe", "gpt-live-transcribe"))
TAKE_NO_PROMPT: Final = frozenset(("gpt-realtime-whisper",))
RETIRING: Final = {"gpt-realtime": "gpt-realtime-2.1", "whisper-1": "gpt-transcribe"}
"""Models whose end the vendor announced, and their replacements."""
