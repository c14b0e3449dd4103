"""Says what became of a proposal, from what its tool was answered and from nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphrag.offline.conversation import Answered
from graphrag.offline.desk import Desk
from graphrag.offline.shown import cite, plain

_STATES = (
    ("undone", re.compile(r"APPLIED, BUT TAKEN BACK|APPLIQUÉ, MAIS ANNULÉ")),
    ("edited", re.compile(r"APPLIED WITH CHANGES|APPLIQUÉ AVEC DES MODIFICATIONS")),
    ("applied", re.compile(r"APPLIED|APPLIQUÉ")),
    ("rejected", re.compile(r"REJECTED|REJETÉ")),
    ("expired", re.compile(r"EXPIRED|EXPIRÉ")),
    ("stale", re.compile(r"OUT OF DATE|PÉRIMÉ")),
    ("failed", re.compile(r"FAILED|ÉCHOUÉ")),
    ("pending", re.compile(r"PROPOSED|NOT DECIDED YET|PAS ENCORE DÉCIDÉ")),
)
_CREATED = re.compile(r"(?:new nodes|nœuds créés): (?P<keys>ai_\w+(?:, ai_\w+)*)")
_FEEDBACK = re.compile(r"Feedback: |Commentaire : ")
_PROBLEM = re.compile(r"^(?:- |  )(?P<text>.+)$", re.MULTILINE)


def report(desk: Desk, proposals: Sequence[Answered]) -> str:
    """Return what became of each proposal of the turn."""
    return "\n\n".join(_one(desk, answered) for answered in proposals)


def _one(desk: Desk, answered: Answered) -> str:
    reading = answered.reading
    if reading is None:
        return desk.say("outcome_unknown")
    text = reading.text.strip()
    if reading.is_error:
        problems = [plain(found["text"], 600) for found in _PROBLEM.finditer(text)] or [plain(text, 600)]
        return desk.say("not_possible") + "\n" + "\n".join(f"- {problem}" for problem in problems[:8])
    state = next((name for name, opening in _STATES if opening.match(text)), "other")
    if state == "pending":
        return desk.say("outcome_pending")
    created = _CREATED.search(_FEEDBACK.split(text)[0]) if state in ("applied", "edited") else None
    links = ""
    if created is not None:
        links = "\n" + desk.say("created", nodes=", ".join(map(cite, created["keys"].split(", "))))
    return f"{desk.say(f'outcome_{state}')}\n> {plain(text, 2_000)}{links}"
