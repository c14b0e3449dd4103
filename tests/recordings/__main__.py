"""Writes the recordings again (`make recordings`); `--check` says which the server
sends otherwise now.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.recordings.server import recorded

FOLDER = Path(__file__).parents[1] / "data" / "recordings"
TIME = 1_790_000_000_000
"""Stands for every time of the past, in milliseconds since 1970."""
LATER = 4_000_000_000_000
"""Stands for times that must not come: when a proposal expires, when an automation runs next."""
FUTURE = ("expiresTime", "nextTime", "nextTimes", "expires")
_STAMP = re.compile(r"\b1[0-9]{12}\b")
_DAY = re.compile(r"\b20[0-9]{2}-[01][0-9]-[0-3][0-9]\b")
_ID = re.compile(r"\b(?:(?:ap|au|m|call)_[0-9a-f]+|[0-9a-f]{16,})\b")


def settled(recordings: Mapping[str, Any]) -> dict[str, str]:
    """Returns the text of each file, with times and ids that are the same at every recording."""
    files: dict[str, str] = {}
    for name, recording in recordings.items():
        ids: dict[str, str] = {}
        files[f"{name}.json"] = (
            json.dumps(_settled(recording, ids, ""), indent=1, ensure_ascii=False) + "\n"
        )
    return files


def _settled(value: Any, ids: dict[str, str], name: str) -> Any:
    if isinstance(value, dict):
        return {_text(key, ids): _settled(each, ids, key) for key, each in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [_settled(each, ids, name) for each in value]  # pyright: ignore
    if isinstance(value, int) and value > 10**12:
        return LATER if name in FUTURE else TIME
    if isinstance(value, int) and name.endswith("Ms"):
        return value and 1000  # how long something took
    return _text(value, ids) if isinstance(value, str) else value


def _text(value: str, ids: dict[str, str]) -> str:
    shown = _ID.sub(lambda found: ids.setdefault(found[0], f"id{len(ids) + 1}"), value)
    return _DAY.sub("2026-09-21", _STAMP.sub(str(TIME), shown))


def main() -> int:
    made = settled(asyncio.run(recorded()))
    drifted = list[str]()
    for name, text in made.items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(name)
            if "--check" not in sys.argv:
                FOLDER.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                print(f"{name}: written")
    if drifted and "--check" in sys.argv:
        print(f"not what the server sends now: {', '.join(drifted)}. Run `make recordings`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
