"""What people and models are told of proposals, decisions and undos, in French and English.

Facts stand in braces.
"""

from __future__ import annotations

from typing import Literal

_REFUSALS: dict[str, dict[Literal["en", "fr"], str]] = {
    "approval_unknown": {
        "en": "there is no approval {id}; `nodius review list` shows those there are",
        "fr": "il n’y a pas d’approbation {id} ; `nodius review list` montre celles qui existent",
    },
    "proposing_needs_editor": {
        "en": "{user} has the role {role}: only an editor, a reviewer or an admin may propose changes",
        "fr": "{user} a le rôle {role} : il faut editor, reviewer ou admin pour proposer un changement",
    },
    "deciding_needs_editor": {
        "en": "{user} has the role {role}: only an editor, a reviewer or an admin may decide",
        "fr": "{user} a le rôle {role} : il faut editor, reviewer ou admin pour décider",
    },
    "deciding_needs_reviewer": {
        "en": "{user} has the role {role}: only a reviewer or an admin may decide this one",
        "fr": "{user} a le rôle {role} : il faut reviewer ou admin pour décider de celle-ci",
    },
    "four_eyes": {
        "en": "{user} asked for this change: here somebody else must decide it",
        "fr": "{user} a demandé ce changement : ici, quelqu’un d’autre doit en décider",
    },
    "proposal_refused": {
        "en": "the change cannot be carried out: {problems}",
        "fr": "ce changement est impossible sur le graphe tel qu’il est",
    },
    "already_proposed": {
        "en": "this change waits already for a decision: {id}. It was not proposed again",
        "fr": "ce changement attend déjà une décision : {id}. Il n’a pas été proposé de nouveau",
    },
    "already_pending": {"en": "{id} waits for a decision", "fr": "{id} attend une décision"},
    "already_applied": {
        "en": "{by} has approved {id} already: it was applied, once",
        "fr": "{by} a déjà approuvé {id} : c’est appliqué, une seule fois",
    },
    "already_rejected": {
        "en": "{by} has rejected {id} already",
        "fr": "{by} a déjà rejeté {id}",
    },
    "already_expired": {
        "en": "{id} has expired: nobody decided it in time; ask for the change again",
        "fr": "{id} a expiré : personne n’a décidé à temps ; redemandez le changement",
    },
    "already_stale": {
        "en": "{id} is out of date since the decision of {by}: ask for the change again",
        "fr": "{id} est périmée depuis la décision de {by} : redemandez le changement",
    },
    "already_failed": {
        "en": "{id} failed when {by} approved it: ask for the change again",
        "fr": "{id} a échoué quand {by} l’a approuvée : redemandez le changement",
    },
    "proposal_waits": {
        "en": "{id} builds on {others}: decide that first",
        "fr": "{id} s’appuie sur {others} : décidez-en d’abord",
    },
    "approval_busy": {
        "en": "the graph changes all the time; {id} is still to be decided, try again",
        "fr": "le graphe change sans cesse ; {id} reste à décider, réessayez",
    },
    "nothing_to_undo": {
        "en": "{what} has no applied change that could be taken back",
        "fr": "{what} n’a pas de changement appliqué à annuler",
    },
    "undo_refused": {
        "en": "{id} cannot be taken back, later changes rest on it: {changed}",
        "fr": "{id} ne peut pas être annulée, des changements ultérieurs en dépendent : {changed}",
    },
}

_REASONS: dict[str, dict[Literal["en", "fr"], str]] = {
    "stale_changed": {
        "en": "changed since it was proposed: {changed}",
        "fr": "modifié depuis la proposition : {changed}",
    },
    "stale_problems": {
        "en": "it no longer fits the graph: {problems}",
        "fr": "cela ne convient plus au graphe : {problems}",
    },
    "stale_preview": {
        "en": "it would now do something else than what was shown",
        "fr": "cela ferait maintenant autre chose que ce qui a été montré",
    },
    "stale_other": {
        "en": "it builds on {other}, which is {status}",
        "fr": "cela s’appuie sur {other}, dont l’état est {status}",
    },
    "failed_altered": {
        "en": "the stored proposal was altered after it was made",
        "fr": "la proposition enregistrée a été altérée après sa création",
    },
    "failed_graph_gone": {"en": "the graph no longer exists", "fr": "le graphe n’existe plus"},
    "failed_refused": {
        "en": "the database refused it: {problem}",
        "fr": "la base de données l’a refusé : {problem}",
    },
}

_OUTCOMES: dict[str, dict[Literal["en", "fr"], str]] = {
    "outcome_pending": {
        "en": "NOT DECIDED YET: {what}. Nothing has changed.",
        "fr": "PAS ENCORE DÉCIDÉ : {what}. Rien n’a changé.",
    },
    "outcome_waits": {
        "en": "NOT DECIDED YET: {what}. It builds on {others}, to be decided first. Nothing has changed.",
        "fr": "PAS ENCORE DÉCIDÉ : {what}. Cela s’appuie sur {others}, à décider d’abord. Rien n’a changé.",
    },
    "outcome_applied": {
        "en": "APPLIED: {what}. Approved by {by}. {keys}. The graph is at revision {revision}.",
        "fr": "APPLIQUÉ : {what}. Approuvé par {by}. {keys}. Le graphe est à la révision {revision}.",
    },
    "outcome_edited": {
        "en": "APPLIED WITH CHANGES: {by} made of “{what}” this: {instead}. {keys}."
        " The graph is at revision {revision}.",
        "fr": "APPLIQUÉ AVEC DES MODIFICATIONS : {by} a fait de « {what} » ceci : {instead}. {keys}."
        " Le graphe est à la révision {revision}.",
    },
    "outcome_undo": {
        "en": "TAKEN BACK: {what}. By {by}. {keys}. The graph is at revision {revision}.",
        "fr": "ANNULÉ : {what}. Par {by}. {keys}. Le graphe est à la révision {revision}.",
    },
    "outcome_undone": {
        "en": "APPLIED, BUT TAKEN BACK SINCE: {what}. The graph is without it now.",
        "fr": "APPLIQUÉ, MAIS ANNULÉ DEPUIS : {what}. Le graphe est désormais sans ce changement.",
    },
    "outcome_rejected": {
        "en": "REJECTED by {by}: {what}. Nothing has changed.",
        "fr": "REJETÉ par {by} : {what}. Rien n’a changé.",
    },
    "outcome_feedback": {"en": "Feedback: {feedback}", "fr": "Commentaire : {feedback}"},
    "outcome_expired": {
        "en": "EXPIRED: {what}. Nobody decided in time. Nothing has changed.",
        "fr": "EXPIRÉ : {what}. Personne n’a décidé à temps. Rien n’a changé.",
    },
    "outcome_stale": {
        "en": "OUT OF DATE: {what}. Nothing has changed: {why}.",
        "fr": "PÉRIMÉ : {what}. Rien n’a changé : {why}.",
    },
    "outcome_failed": {
        "en": "FAILED: {what}. Nothing has changed: {why}.",
        "fr": "ÉCHOUÉ : {what}. Rien n’a changé : {why}.",
    },
}

_KEYS: dict[str, dict[Literal["en", "fr"], str]] = {
    "keys_nodesCreated": {"en": "new nodes", "fr": "nœuds créés"},
    "keys_nodesChanged": {"en": "changed nodes", "fr": "nœuds modifiés"},
    "keys_nodesDeleted": {"en": "deleted nodes", "fr": "nœuds supprimés"},
    "keys_edgesCreated": {"en": "new edges", "fr": "arêtes créées"},
    "keys_edgesChanged": {"en": "changed edges", "fr": "arêtes modifiées"},
    "keys_edgesDeleted": {"en": "deleted edges", "fr": "arêtes supprimées"},
    "keys_typesCreated": {"en": "new types", "fr": "types créés"},
    "keys_typesChanged": {"en": "changed types", "fr": "types modifiés"},
    "keys_typesDeleted": {"en": "deleted types", "fr": "types supprimés"},
}

_TITLES: dict[str, dict[Literal["en", "fr"], str]] = {
    "title_rename": {"en": "rename “{name}” to “{new}”", "fr": "renommer « {name} » en « {new} »"},
    "title_also": {"en": "{what} and change {fields}", "fr": "{what} et modifier {fields}"},
    "title_change": {"en": "change {fields} of “{name}”", "fr": "modifier {fields} de « {name} »"},
    "title_code": {"en": "its code", "fr": "son code"},
    "title_create": {"en": "create “{name}” ({type})", "fr": "créer « {name} » ({type})"},
    "title_new": {"en": "create a node of type “{type}”", "fr": "créer un nœud de type « {type} »"},
    "title_connected": {"en": "{what}, connected to {names}", "fr": "{what}, relié à {names}"},
    "title_delete": {"en": "delete “{name}”", "fr": "supprimer « {name} »"},
    "title_move": {
        "en": "move “{name}” to {x:g}, {y:g}",
        "fr": "déplacer « {name} » en {x:g}, {y:g}",
    },
    "title_connect": {"en": "connect “{source}” to “{target}”", "fr": "relier « {source} » à « {target} »"},
    "title_disconnect": {"en": "remove the connection {name}", "fr": "supprimer la liaison {name}"},
    "title_type_create": {"en": "create the node type “{name}”", "fr": "créer le type de nœud « {name} »"},
    "title_type_update": {"en": "change the node type “{name}”", "fr": "modifier le type de nœud « {name} »"},
    "title_arrange": {"en": "arrange nodes ({count})", "fr": "disposer des nœuds ({count})"},
    "title_batch": {"en": "{count} changes: {parts}", "fr": "{count} changements : {parts}"},
    "title_undo": {"en": "undo: {what}", "fr": "annuler : {what}"},
}

APPROVALS = {**_TITLES, **_REFUSALS, **_REASONS, **_OUTCOMES, **_KEYS}
