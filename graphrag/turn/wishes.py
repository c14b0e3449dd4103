"""Guesses from the words of a message whether it asks for a change of the graph. In doubt it does.

Only small windows need the guess: where there is room the tools that propose are always offered.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from graphrag.history import calls_of
from graphrag.providers.base import Message, UserMessage

RECENT = 3
"""Messages of the person that are looked at: `and now the other one` means what was asked before."""

_LOOKED_AT_CHARS = 2_000
_CHANGES = re.compile(
    r"\b(?:add|creat|delet|remov|connect|link|wire|renam|chang|modif|updat|edit|set|mov|insert|replac|fix"
    r"|correct|repair|improv|refactor|tid|arrang|reorgani|layout|lay out|align|split|merg|duplicat|copy|copie"
    r"|swap|enabl|disabl|put|make|build|implement|appl|convert|writ|increas|decreas|rais|lower|undo|clean|drop"
    r"|attach|detach|disconnect|configur|adjust|turn|switch|extend|propos|ajout|cree|supprim|effac|enlev|retir"
    r"|reli|branch|debranch|renomm|met|mis|deplac|boug|inser|remplac|corrig|repar|amelior|rang|dispos"
    r"|dupliqu|invers|activ|desactiv|fais|faire|construi|ecri|augment|dimin|annul|nettoi|ajust|decoup|fusionn)"
)
_READS = re.compile(
    r"(?:\S+ ){0,3}?(?:what|which|who|where|when|why|how|is|are|does|do|tell|explain|describe|show|list|find"
    r"|summari[sz]e|search|count|que|qu'\w+|quels?|quelles?|quoi|qui|ou|quand|pourquoi|comment|combien|est-ce"
    r"|explique[rz]?|decri[rstvez]+|montre[rz]?|liste[rz]?|trouve[rz]?|resume[rz]?|cherche[rz]?)\b"
)


def conversation_asks_for_change(messages: Sequence[Message]) -> bool:
    """Return whether one of the last messages may ask for a change, or a change was proposed before."""
    if any(call.name.startswith("propose_") for call in calls_of(messages)):
        return True
    asked = [message.content for message in messages if isinstance(message, UserMessage)]
    return any(asks_for_change(text) for text in asked[-RECENT:])


def asks_for_change(text: str) -> bool:
    """Return False only for what is plainly a question, in English or French."""
    folded = unicodedata.normalize("NFKD", text[:_LOOKED_AT_CHARS].casefold())
    plain = "".join(letter for letter in folded if not unicodedata.combining(letter)).strip()
    return bool(_CHANGES.search(plain)) or len(text) > _LOOKED_AT_CHARS or not _READS.match(plain)
