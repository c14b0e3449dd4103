"""Writes the generated parts of the documents: `python -m tests.docs`, or `--check` to
see what drifted.

A part stands between `<!-- generated:NAME -->` and `<!-- end -->`. Parts that code or stored
figures can tell are written again each time. Other measured ones stay as they are until
`--fill NAME` gives them a command's output.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import load, scale
from tests.benchmarks.peers import report as peers
from tests.docs.agents import agent_errors_part, agent_fields_part
from tests.docs.program import (
    ROOT,
    checks_part,
    cli_part,
    decisions_part,
    inside_part,
    rooms_part,
    settings_part,
    transitions_part,
)
from tests.docs.reference import (
    diagram_part,
    endpoints_part,
    events_part,
    log_events_part,
    messages_part,
    openapi,
    packages_diagram_part,
    providers_part,
    sent_messages_part,
)
from tests.docs.rendering import (
    MEASURED,
    DocsError,
    as_markdown,
    names_of_changed,
    names_of_parts,
    render,
)
from tests.support.ws_catalogue import ws_description

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
DESCRIPTIONS: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "docs/openapi.json": openapi,
    "server/ws-messages.json": ws_description,
}
"""The second is also what the server sends of its messages: it has no forms of them to
make it from.
"""
PARTS: Mapping[str, Callable[[], str]] = {
    "rooms": rooms_part,
    "inside": inside_part,
    "diagram": diagram_part,
    "packages": packages_diagram_part,
    "cli": cli_part,
    "decisions": decisions_part,
    "checks": checks_part,
    "transitions": transitions_part,
    "settings": settings_part,
    "providers": providers_part,
    "events": events_part,
    "log-events": log_events_part,
    "messages": messages_part,
    "sent-messages": sent_messages_part,
    "endpoints": endpoints_part,
    "agent-fields": agent_fields_part,
    "agent-errors": agent_errors_part,
    "load": load.stored_report,
    "scale": scale.stored_report,
    "peers": peers.stored_report,
}


def main(
    arguments: list[str] | None = None, documents: Sequence[Path] = DOCUMENTS, folder: Path = ROOT
) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; end with 1 when a part drifted"
    )
    parser.add_argument(
        "--fill", metavar="NAME", choices=MEASURED, help="a part to fill from standard input"
    )
    given = parser.parse_args(arguments)
    fill = {given.fill: as_markdown(sys.stdin.read())} if given.fill else {}
    failed = False
    for document in documents:
        failed |= not _write(document, fill, check=given.check)
    for name, description in DESCRIPTIONS.items():
        failed |= not _write_description(folder / name, description(), check=given.check)
    return int(failed)


def _write(document: Path, fill: Mapping[str, str], *, check: bool) -> bool:
    """Write a document's parts again; say whether all is well."""
    before = document.read_text(encoding="utf-8")
    names = set(names_of_parts(before))
    try:
        after = render(
            before,
            {n: part for n, part in PARTS.items() if n in names},
            {n: fill[n] for n in names & {*fill}},
        )
    except DocsError as exc:
        print(f"{document.name}: {exc}", file=sys.stderr)
        return False
    if after == before:
        return True
    changed = ", ".join(names_of_changed(before, after))
    if check:
        print(
            f"{document.name}: {changed} drifted from its source; run `make docs`", file=sys.stderr
        )
        return False
    document.write_text(after, encoding="utf-8")
    print(f"{document.name}: wrote {changed}")
    return True


def _write_description(description: Path, document: Mapping[str, Any], *, check: bool) -> bool:
    after = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if description.exists() and description.read_text(encoding="utf-8") == after:
        return True
    if check:
        print(f"{description.name}: drifted from its source; run `make docs`", file=sys.stderr)
        return False
    description.write_text(after, encoding="utf-8")
    print(f"{description.name}: written")
    return True


if __name__ == "__main__":
    sys.exit(main())
