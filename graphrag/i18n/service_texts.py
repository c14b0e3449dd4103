"""What the web service tells its clients of a request that it does not carry out, in French and English.

Facts stand in braces.
"""

from __future__ import annotations

from typing import Literal

SERVICE: dict[str, dict[Literal["en", "fr"], str]] = {
    "words_only": {
        "en": "The embedding service does not answer: only words were searched, not meanings.",
        "fr": "Le service de plongements ne répond pas : seuls les mots ont été cherchés, pas le sens.",
    },
    "usage_tokens": {"en": "{reached} of {allowed} tokens", "fr": "{reached} jetons sur {allowed}"},
    "usage_dollars": {"en": "{reached} of {allowed} US dollars", "fr": "{reached} $ US sur {allowed}"},
    "usage_limit_call": {
        "en": "the prompt is too long for one call: {figures}; an administrator can raise {setting}",
        "fr": "texte trop long pour un appel : {figures} ; un administrateur peut augmenter {setting}",
    },
    "usage_limit_person": {
        "en": "your own limit of this month: {figures}; wait for the next month, or for an administrator to "
        "raise {setting}",
        "fr": "votre propre limite du mois : {figures} ; attendez le mois prochain, ou qu’un administrateur "
        "augmente {setting}",
    },
    "usage_limit_workspace": {
        "en": "this workspace's limit of this month: {figures}; wait for the next month, or for an "
        "administrator to raise {setting}",
        "fr": "la limite du mois de cet espace de travail : {figures} ; attendez le mois prochain, ou qu’un "
        "administrateur augmente {setting}",
    },
    "usage_limit_service": {
        "en": "the whole service's limit of this month: {figures}; wait for the next month, or for an "
        "administrator to raise {setting}",
        "fr": "la limite du mois de tout le service : {figures} ; attendez le mois prochain, ou qu’un "
        "administrateur augmente {setting}",
    },
    "unauthorized": {"en": "Sign in first", "fr": "Authentifiez-vous d’abord"},
    "invalid_message": {"en": "The message is not valid", "fr": "Le message n’est pas valide"},
    "too_large": {"en": "The request is too large", "fr": "La requête est trop grande"},
    "see_log": {
        "en": "the log of the server says why; try again, or ask whoever runs it",
        "fr": "le journal du serveur dit pourquoi ; réessayez ou demandez à qui l’exploite",
    },
    "body_too_slow": {
        "en": "the request did not come on for {seconds} s; send it again",
        "fr": "la requête n’avance plus depuis {seconds} s ; renvoyez-la",
    },
    "server_full": {
        "en": "too many large requests at once; send it again in a moment",
        "fr": "trop de grandes requêtes à la fois ; renvoyez-la dans un instant",
    },
    "method_not_allowed": {
        "en": "This address does not know that method",
        "fr": "Cette adresse ne connaît pas cette méthode",
    },
    "no_such_address": {"en": "there is nothing at this address", "fr": "il n’y a rien à cette adresse"},
    "no_token": {"en": "a bearer token is needed", "fr": "un jeton est nécessaire"},
    "token_malformed": {"en": "this is not a signed token", "fr": "ce n’est pas un jeton signé"},
    "token_algorithm": {
        "en": "the token is signed in a way that is not accepted here",
        "fr": "le jeton est signé d’une façon qui n’est pas acceptée ici",
    },
    "token_signature": {
        "en": "the token's signature is wrong",
        "fr": "la signature du jeton est fausse",
    },
    "token_expired": {"en": "the token has expired", "fr": "le jeton a expiré"},
    "token_early": {"en": "the token is not valid yet", "fr": "le jeton n’est pas encore valable"},
    "token_claims": {
        "en": "the token lacks a claim, or it is not for this service: {claim}",
        "fr": "il manque une information au jeton, ou il n’est pas pour ce service : {claim}",
    },
    "keys_unavailable": {
        "en": "the keys that check tokens cannot be read now",
        "fr": "les clés qui vérifient les jetons sont illisibles pour l’instant",
    },
    "foreign_page": {
        "en": "pages of other sites may not call this service",
        "fr": "les pages d’autres sites ne peuvent pas appeler ce service",
    },
    "needs_role": {
        "en": "{user} has the role {role}: this needs the role {needed}",
        "fr": "{user} a le rôle {role} : il faut pour cela le rôle {needed}",
    },
    "at_most_bytes": {"en": "at most {limit} bytes", "fr": "au plus {limit} octets"},
    "wait_seconds": {"en": "wait {seconds} s", "fr": "attendez {seconds} s"},
    "turn_stopped": {
        "en": "the answer was stopped; what there is of it is kept in the conversation",
        "fr": "la réponse a été arrêtée ; ce qu’il y en a est gardé dans la conversation",
    },
    "several_workspaces": {
        "en": "name the workspace: {names}",
        "fr": "nommez l’espace de travail : {names}",
    },
    "unforeseen": {
        "en": "the request {request} failed and was logged",
        "fr": "la requête {request} a échoué et a été notée",
    },
    "sign_in_first": {
        "en": "sign in first: send `authenticate` with a token",
        "fr": "authentifiez-vous d’abord : envoyez `authenticate` avec un jeton",
    },
    "sign_in_late": {"en": "no sign-in came in time", "fr": "aucune authentification à temps"},
    "signed_in_as_other": {
        "en": "somebody else is signed in here: open another connection",
        "fr": "quelqu’un d’autre est authentifié ici : ouvrez une autre connexion",
    },
    "turns_at_once": {
        "en": "a connection may have {turns} turns at once, each under its own _id",
        "fr": "une connexion peut avoir {turns} tours à la fois, chacun sous son propre _id",
    },
    "no_turn_to_stop": {
        "en": "there is no turn under way that could be stopped",
        "fr": "aucun tour en cours ne pourrait être arrêté",
    },
    "node_types_not_live": {
        "en": "node types are not edited live here: ask the assistant for the change and approve it",
        "fr": "ici les types de nœuds ne se modifient pas en direct : demandez le changement à l’assistant",
    },
    "register_first": {
        "en": "send `registerUserOnGraph` first",
        "fr": "envoyez d’abord `registerUserOnGraph`",
    },
}
