"""What people are told, in French and English; every text that is not a name or a fact is here."""

from __future__ import annotations

from typing import Literal

from graphrag.i18n.approval_texts import APPROVALS
from graphrag.i18n.service_texts import SERVICE

Language = Literal["en", "fr"]

MESSAGES: dict[str, dict[Language, str]] = {
    "not_found": {"en": "Not found", "fr": "Introuvable"},
    "conflict": {"en": "Somebody changed it meanwhile", "fr": "Quelqu’un l’a modifié entre-temps"},
    "invalid": {"en": "Not valid", "fr": "Non valide"},
    "bad_document": {"en": "A stored document is malformed", "fr": "Un document stocké est mal formé"},
    "busy": {"en": "Busy, try again", "fr": "Occupé, réessayez"},
    "timeout": {"en": "No answer in time", "fr": "Pas de réponse à temps"},
    "unavailable": {"en": "Not available", "fr": "Indisponible"},
    "damaged": {"en": "The database cannot be read", "fr": "La base de données est illisible"},
    "auth_error": {"en": "The key is not accepted", "fr": "La clé n’est pas acceptée"},
    "rate_limit": {"en": "Too many requests, try again later", "fr": "Trop de requêtes, réessayez plus tard"},
    "server_error": {"en": "The service failed", "fr": "Le service a échoué"},
    "content_filter": {
        "en": "The model refused to answer this",
        "fr": "Le modèle a refusé de répondre à cela",
    },
    "context_length": {
        "en": "The conversation is too long for the model",
        "fr": "La conversation est trop longue pour le modèle",
    },
    "request_refused": {
        "en": "The model provider does not accept the request",
        "fr": "Le fournisseur du modèle n’accepte pas la requête",
    },
    "usage_limit": {"en": "A limit of usage is reached", "fr": "Une limite d’utilisation est atteinte"},
    "network": {"en": "The network failed", "fr": "Le réseau a échoué"},
    "unreadable": {"en": "The file cannot be used", "fr": "Le fichier est inutilisable"},
    "usage": {"en": "Wrong use", "fr": "Mauvais usage"},
    "internal": {"en": "A fault of this program", "fr": "Un défaut de ce programme"},
    "prompt_read": {
        "en": "still reading ({done} of {total} tokens)",
        "fr": "lecture en cours ({done} tokens sur {total})",
    },
    "no_credit": {
        "en": "The account at the model provider has no credit left",
        "fr": "Le compte chez le fournisseur du modèle n’a plus de crédit",
    },
    "forbidden": {"en": "Not allowed", "fr": "Non autorisé"},
    "stale": {"en": "Out of date", "fr": "Périmé"},
    **APPROVALS,
    **SERVICE,
}


def message(code: str, language: Language) -> str:
    """Return the text for a code; an unknown code is a fault of the program and fails here."""
    return MESSAGES[code][language]
