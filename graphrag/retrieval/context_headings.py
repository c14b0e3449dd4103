"""The headings, columns and sentences of a context."""

from __future__ import annotations

from typing import Literal

from graphrag.i18n import Language

Section = Literal["nodes", "notes", "others", "types"]

ALWAYS: dict[Section, tuple[str, ...]] = {
    "nodes": ("_key", "type", "sheet", "process"),
    "notes": ("_key", "says"),
    "others": ("_key",),
    "types": ("type", "name", "description", "handles"),
}
WHEN_PRESENT: dict[Section, tuple[str, ...]] = {
    "nodes": ("name", "data", "handles", "why"),
    "notes": ("around",),
    "others": ("name", "type", "does"),
    "types": ("process",),
}

HEADINGS: dict[Language, dict[str, str]] = {
    "en": {
        "nodes": "RELEVANT NODES",
        "whole": "ALL NODES",
        "flow": "FLOW",
        "notes": "NOTES ON THE CANVAS",
        "others": "OTHER NODES",
        "types": "TYPES USED",
        "loose": "Not connected: ",
        "relevant": "Most relevant: ",
    },
    "fr": {
        "nodes": "NODES PERTINENTS",
        "whole": "TOUS LES NODES",
        "flow": "FLUX",
        "notes": "NOTES SUR LE CANEVAS",
        "others": "AUTRES NODES",
        "types": "TYPES UTILISÉS",
        "loose": "Sans lien : ",
        "relevant": "Les plus pertinents : ",
    },
}
EMPTY: dict[Language, str] = {
    "en": "No node of this graph matches the question.",
    "fr": "Aucun node de ce graphe ne correspond à la question.",
}
TOO_LONG: dict[Language, str] = {
    "en": "{n} nodes were found, too long to show here: search for them.",
    "fr": "{n} nodes trouvés, trop longs pour être montrés ici : cherche-les.",
}
DROPPED: dict[Language, str] = {
    "en": "{n} less relevant nodes left out for length.",
    "fr": "{n} nodes moins pertinents omis faute de place.",
}
