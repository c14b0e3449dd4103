"""Writes `tools/token_beginnings.txt` from the catalogue of a secret
scanner: `make token-beginnings`.

The catalogue is Betterleaks' (the successor of gitleaks, MIT License), as Kingfisher (MongoDB,
Apache License 2.0) ships it. The scanner itself is not used at run time: its package has 44 MB, and
its first text costs four seconds of computing.
"""

from __future__ import annotations

import re
from pathlib import Path

FILE = Path(__file__).parents[2] / "tools" / "token_beginnings.txt"
_VALUE_IN_CONTEXT = re.compile(r"\{0,5\}\((.+)")
_LEAD = re.compile(r"^(?:\\b|\(\?i\)|\(\?i:|\(\?:|\()*")
_BEGINNING = re.compile(r"^[A-Za-z](?:[A-Za-z0-9_-]|\\[.-])*(?:[_-]|\\[.-])")
_NO_SECRET = re.compile(r"client-id|app-id|key-id|public|pub-key|project-api-key|browser|url|host")
_ORDINARY = frozenset(("API-", "ApiKey-", "Mid-", "access-", "ico-", "live_", "v1.0-"))
"""Beginnings of ordinary names, too."""

MIN_CHARS = 4
"""What begins shorter, as `b_` and `re_` do, begins too much else."""


def beginnings(rules: list[dict[str, str]]) -> list[str]:
    """Returns the fixed texts, up to a separator, that the catalogue's tokens begin with."""
    found: set[str] = set()
    for rule in rules:
        pattern = rule["detection_regex"]
        if (value := _VALUE_IN_CONTEXT.search(pattern)) is not None:
            pattern = value[1]
        begins = _BEGINNING.match(_LEAD.sub("", pattern))
        if begins is not None and not _NO_SECRET.search(rule["id"]):
            found.add(begins[0].replace("\\", ""))
    kept = (
        text for text in found - _ORDINARY if len(text) >= MIN_CHARS and not text.startswith("eyJ")
    )
    return sorted(kept)


def main() -> None:
    """Writes the file anew. Needs the package `kingfisher-secret-scanner`."""
    from kingfisher_sdk import Rules, __version__  # pyright: ignore

    rules = Rules(confidence="low", cache=False)
    listed = beginnings([rules.detail(rule["id"]) for rule in rules.metadata()])
    head = [
        "# What tokens begin with. Made by `make token-beginnings`: do not edit.",
        f"# From the Betterleaks rules (MIT License) of Kingfisher {__version__} (Apache License 2.0).",
    ]
    FILE.write_text("\n".join([*head, *listed]) + "\n")


if __name__ == "__main__":
    main()
