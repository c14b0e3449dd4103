"""The languages of the service, one folder each: texts, prompts, patterns and words.

A language is added by its folder, a translation of `en`, and by its code in `Language`.
CONTRIBUTING.md says what the files hold. The folders of `de`, `es`, `it`, `nl` and `pt` hold
words alone: graphs may be written in these languages, the service does not answer in them.
"""

from __future__ import annotations

from typing import Literal, get_args

Language = Literal["en", "fr"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

GraphLanguage = Literal["de", "es", "fr", "it", "nl", "pt"]
"""Those that have stems of their own: `stemmer` in their `words.toml`."""
