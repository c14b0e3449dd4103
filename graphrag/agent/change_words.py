"""Tells by its words, in English or French, whether a text asks for a change or claims that
one was made.
"""

from __future__ import annotations

import re

from datasources.text import fold

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

_QUESTION = re.compile(
    r"(?:(?:by|to|at|from|in|on|of|a|de|vers|par|pour) )?"
    r"(?:which|what(?! (?:about|if))|who|whose|where|when|is|are|does|do (?:the|all|any|they|these|those)"
    r"|how (?:many|much|large|big|long|often|is|are|does)|quels?|quelles?|qui|ou|quand|combien|est-ce que"
    r"|qu'est-ce)\b[^.!;?\n]*\?\s*"
)
"""One sentence that asks; verbs of changes in it say what a node does ("what does it create?")."""
_REQUEST = re.compile(
    r"\b(?:please|could|should|would|can|let|want|need|must|possible|able|instead|shall|may i"
    r"|peu[xt]|pouvez|pourr\w+|faut|faudrait|veu[xt]|voudr\w+|doit|devr\w+|s'il)\b"
)
"""A question with one of these may ask for a change in a polite form."""

_BEGINNING = (
    r"\W*(?:(?:please|ok(?:ay)?|now|then|so|and|also|just|hi|hello|hey|bonjour|salut|merci de|alors|et|puis"
    r"|maintenant|(?:can|could|would|will) you|let'?s|(?:i|we)(?: want| need|'d like| would like)"
    r"(?: you)? to|you (?:should|must|need to|have to)|s'il (?:te|vous) plait|peux[ -]tu|pouvez[ -]vous"
    r"|pourrais[ -]tu|pourriez[ -]vous|(?:il faut|je (?:veux|voudrais)|j'aimerais)(?: que (?:tu|vous))?)"
    r"\b[\s,:!-]*)*"
)
_IMPERATIVES = r"(?!(?!(?:mets|fais|ecris|construis)\b)\w*(?:ed|ing|ions?|s)\b)"
_COMMANDS = re.compile(
    rf"{_BEGINNING}(?:let (?!me\b|us\b)|(?=\w){_IMPERATIVES}(?:{_CHANGES.pattern}))"
)
"""A text that begins with what is to be done."""
_NEVER = re.compile(r"\W*(?:please )?(?:do not|don'?t|never|n'|ne |nothing|leave\b|stop\b|arrete)")
_ASKS = re.compile(
    r"\?|^\W*(?:is|are|am|was|were|does|do|did|has|have|had|will|would|should|shall|may|might|est-ce)\b"
    r"|\b(?:how|what|which|who|whose|why|when|where|if|whether|explain|describe|tell|show|list|find|check|look"
    r"|summari[sz]e|comment|pourquoi|quels?|quelles?|quoi|quand|combien|si|explique[rz]?|decri\w+|montre[rz]?"
    r"|dis|dites|liste[rz]?|trouve[rz]?|cherche[rz]?|resume[rz]?)\b"
)

_DONE = (
    r"(?:added|created|deleted|removed|renamed|connected|linked|moved|updated|changed|modified|replaced|inserted"
    r"|fixed|corrected|disconnected|reorgani[sz]ed|rearranged|configured|duplicated|applied|edited)"
)
_FAIT = (
    r"(?:ajoute|cree|supprime|efface|retire|enleve|renomme|relie|connecte|deplace|modifie|mis(?:e|es)? a jour"
    r"|change|remplace|insere|corrige|configure|reorganise|duplique|applique)(?:e|s|es)?"
)
_CLAIMS = re.compile(
    rf"\b(?:i|we)(?:['’]ve| have)?(?: (?:now|just|also|already|successfully))* {_DONE}\b"
    rf"|\bj['’](?:y )?(?:l['’])?ai(?: (?:bien|maintenant|deja))* {_FAIT}\b"
)
_CLAIMS_WHEN_ASKED = re.compile(
    rf"^\W*(?:done|all set|c['’]est fait|voila qui est fait)\b"
    rf"|\b(?:has|have|is|are)(?: (?:been|now|successfully))+ {_DONE}\b|\bsuccessfully {_DONE}\b"
    rf"|\b(?:a|ont)(?: bien)? ete(?: bien)? {_FAIT}\b|\b(?:est|sont) (?:maintenant|desormais) {_FAIT}\b"
)


def asks_for_change(text: str) -> bool:
    """Return False only for what is plainly a question, in English or French."""
    plain = fold(text[:_LOOKED_AT_CHARS])
    if len(text) <= _LOOKED_AT_CHARS and _QUESTION.fullmatch(plain) and not _REQUEST.search(plain):
        return False
    return bool(_CHANGES.search(plain)) or len(text) > _LOOKED_AT_CHARS or not _READS.match(plain)


def requests_change(text: str) -> bool:
    """Returns True only for what is plainly a request for a change, in English or French.

    How a change would be made, whether it should be and what it would do are questions.
    """
    plain = fold(text[:_LOOKED_AT_CHARS])
    if _NEVER.match(plain) or not asks_for_change(text):
        return False
    return _COMMANDS.match(plain) is not None or _ASKS.search(plain) is None


def claims_change(answer: str, asked: str) -> bool:
    """Return whether an answer says, in English or French, that something was changed just now."""
    plain = fold(answer[:_LOOKED_AT_CHARS])
    return bool(
        _CLAIMS.search(plain) or (_CLAIMS_WHEN_ASKED.search(plain) and asks_for_change(asked))
    )
