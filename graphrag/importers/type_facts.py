"""Names and descriptions of the node types of other tools. Facts about the types of a format are in
its `types.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

_ICONS = {
    "trigger": "Zap",
    "action": "Box",
    "flow": "GitBranch",
    "ai": "Bot",
    "code": "Code",
    "data": "Database",
    "config": "Settings",
    "subflow": "Workflow",
}

_SPELLINGS = """
    AI API AWS CSV CSS CRM FTP GraphQL GitHub GitLab HubSpot HTML HTTP ID IMAP JSON JWT LinkedIn LLM MCP
    MongoDB MQTT MySQL NocoDB OCR OpenAI PDF REST RPC RSS S3 SMS SQL SSH TCP UDP URL WooCommerce WordPress
    XML YouTube ChatGPT DeepSeek UI WhatsApp n8n
"""
_WORDS = {"lm": "LLM", **{word.lower(): word for word in _SPELLINGS.split()}}
_COMPOUNDS = re.compile(
    "OpenAi|MySql|GraphQl|WhatsApp|YouTube|LinkedIn|MongoDb|NocoDb|PostgreSql|DeepSeek",
    re.IGNORECASE,
)
_PARTS = re.compile(
    r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*(?![a-z])|[A-Z]+[0-9]*|[0-9]+|[^\W_a-zA-Z0-9]+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFacts:
    """The name, description, category and icon shown for a node type."""

    display_name: str
    description: str
    category: str
    icon: str | None = None


NOTE_FACTS = TypeFacts(
    display_name="Note",
    description="A text written on the canvas; it has no effect on the workflow.",
    category="note",
    icon="StickyNote",
)
GROUP_FACTS = TypeFacts(
    display_name="Group",
    description="A frame around nodes that belong together.",
    category="note",
    icon="Group",
)


def facts(display_name: str, description: str, category: str) -> TypeFacts:
    """Returns facts with the icon of their category."""
    icon = _ICONS.get(category, "Box")
    return TypeFacts(
        display_name=display_name, description=description, category=category, icon=icon
    )


@cache
def read_type_file(package: str) -> Mapping[str, Any]:
    """Returns the content of the `types.toml` in a format's package."""
    return tomllib.loads(resources.files(package).joinpath("types.toml").read_text("utf-8"))


def known_type(package: str, name: str) -> tuple[str, str] | None:
    """Returns a type's category and description, None if the `types.toml` does not list it."""
    sections: Mapping[str, Mapping[str, str]] = read_type_file(package)["types"]
    return next(
        ((category, texts[name]) for category, texts in sections.items() if name in texts), None
    )


def humanise(name: str) -> str:
    """Returns the technical name of a type as words: `httpRequest` becomes `HTTP Request`."""
    if name.islower():
        parts = re.split(r"[\s_.:/-]+", name)
    else:
        parts: list[str] = _PARTS.findall(_COMPOUNDS.sub(lambda match: match[0].capitalize(), name))
    words = [_WORDS.get(part.lower()) or part[:1].upper() + part[1:] for part in parts if part]
    return " ".join(words) or name.strip() or "Node"
