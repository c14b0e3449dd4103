"""What people are told of an error, by the name of its class, in French and English.

An error's facts stand in braces. What a provider or another program said is in no sentence: it is a
detail beside it. `reason` is only named in English, in which the program itself writes it.
"""

from __future__ import annotations

from typing import Literal

_DATA: dict[str, dict[Literal["en", "fr"], str]] = {
    "GraphNotFound": {
        "en": "no graph “{graph_key}” in this workspace",
        "fr": "aucun graphe « {graph_key} » dans cet espace de travail",
    },
    "GraphExists": {
        "en": "the graph key “{graph_key}” is taken; choose another key",
        "fr": "la clé de graphe « {graph_key} » est prise ; choisissez-en une autre",
    },
    "BadDocument": {
        "en": "{collection}/{key}: field “{field}”: {reason}",
        "fr": "le champ « {field} » de {collection}/{key} n’a pas la forme attendue",
    },
    "InvalidMutation": {
        "en": "graph “{graph_key}”: {reason} {keys}",
        "fr": "le changement ne convient pas au graphe « {graph_key} » {keys}",
    },
    "RevisionConflict": {
        "en": "graph “{graph_key}” is at revision {actual}, not {expected}: read it again and retry",
        "fr": "le graphe « {graph_key} » est à la révision {actual}, pas {expected} ; relisez-le, réessayez",
    },
    "RecordConflict": {
        "en": "somebody else changed it at the same moment; try again",
        "fr": "quelqu’un d’autre l’a modifié au même moment ; réessayez",
    },
    "UnknownIndexField": {
        "en": "records of kind “{kind}” are not indexed by “{field}”; use {known}",
        "fr": "les enregistrements « {kind} » ne sont pas indexés par « {field} » ; utilisez {known}",
    },
    "InvalidDatabaseUrl": {
        "en": "{sentence}",
        "fr": "l’adresse de la base de données n’est pas valable ; utilisez sqlite:CHEMIN, memory: ou"
        " arango+http://UTILISATEUR:MOT_DE_PASSE@HÔTE:8529/BASE",
    },
    "DatabaseBusy": {
        "en": "another process held the database for {seconds:g} s; try again",
        "fr": "un autre processus a occupé la base de données pendant {seconds:g} s ; réessayez",
    },
    "DatabaseDamaged": {
        "en": "the file is not a readable database; restore a copy or move it away",
        "fr": "le fichier n’est pas une base de données lisible ; restaurez une copie ou déplacez-le",
    },
    "DatabaseVersion": {
        "en": "the database has schema version {found}, this program knows up to {supported}: upgrade it",
        "fr": "la base de données a la version de schéma {found}, ce programme connaît jusqu’à {supported} :"
        " mettez le programme à jour",
    },
    "SourceTimeout": {
        "en": "the database did not answer within {seconds:g} s",
        "fr": "la base de données n’a pas répondu en {seconds:g} s",
    },
    "SourceUnavailable": {
        "en": "the database cannot be reached; try again",
        "fr": "la base de données est injoignable ; réessayez",
    },
    "SourceBusy": {
        "en": "the database is busy with what others do; try again",
        "fr": "la base de données est occupée par d’autres ; réessayez",
    },
    "DatabaseUnprepared": {
        "en": "the database is not set up; `nodius db init` does that",
        "fr": "la base de données n’est pas préparée ; `nodius db init` le fait",
    },
    "InstructionError": {
        "en": "{op} at “{path}”: {reason}",
        "fr": "l’instruction {op} n’est pas possible à cet endroit : « {path} »",
    },
}

_MODELS: dict[str, dict[Literal["en", "fr"], str]] = {
    "ModelUnauthorized": {
        "en": "{provider} does not accept the key",
        "fr": "{provider} n’accepte pas la clé",
    },
    "ModelRateLimited": {
        "en": "{provider} allows no more requests now",
        "fr": "{provider} n’autorise plus de requêtes pour l’instant",
    },
    "ModelFailed": {
        "en": "{provider} failed; try again",
        "fr": "{provider} a échoué ; réessayez",
    },
    "ModelRequestRefused": {
        "en": "{provider} refused the request",
        "fr": "{provider} a refusé la requête",
    },
    "ModelContextTooLong": {
        "en": "{provider} cannot take a conversation this long; begin another one",
        "fr": "{provider} ne peut pas prendre une conversation aussi longue ; commencez-en une autre",
    },
    "ModelContentFiltered": {
        "en": "{provider} refused to answer",
        "fr": "{provider} a refusé de répondre",
    },
    "ModelTimedOut": {
        "en": "{provider} did not answer within {seconds:g} s; try again",
        "fr": "{provider} n’a pas répondu en {seconds:g} s ; réessayez",
    },
    "ModelUnreachable": {
        "en": "{provider} cannot be reached; try again",
        "fr": "{provider} est injoignable ; réessayez",
    },
    "ModelStreamBroken": {
        "en": "{provider} broke off its answer; try again",
        "fr": "{provider} a interrompu sa réponse ; réessayez",
    },
    "ModelAnswerMalformed": {
        "en": "{provider} sent something that is no answer",
        "fr": "{provider} a envoyé quelque chose qui n’est pas une réponse",
    },
    "ModelEmptyReply": {
        "en": "{provider} sent an empty answer; try again",
        "fr": "{provider} a envoyé une réponse vide ; réessayez",
    },
    "ModelError": {"en": "{provider} failed", "fr": "{provider} a échoué"},
    "EmbeddingRefused": {
        "en": "{provider} refused to embed (HTTP {status})",
        "fr": "{provider} a refusé de calculer des vecteurs (HTTP {status})",
    },
    "EmbeddingUnauthorized": {
        "en": "{provider} does not accept the key: set {variable}",
        "fr": "{provider} n’accepte pas la clé : définissez {variable}",
    },
    "EmbeddingUnreachable": {
        "en": "{provider} cannot be reached",
        "fr": "{provider} est injoignable",
    },
    "EmbeddingMalformed": {
        "en": "{provider} sent unusable embeddings",
        "fr": "{provider} a envoyé des vecteurs inutilisables",
    },
    "EmbeddingError": {
        "en": "the embedding service failed",
        "fr": "le service de vecteurs a échoué",
    },
    "WindowTooSmall": {
        "en": "the message, its context and the tools need about {tokens} tokens, the model takes {window};"
        " ask for less at once or use a model with a larger window",
        "fr": "le message, son contexte et les outils demandent environ {tokens} tokens, le modèle en prend"
        " {window} ; demandez moins à la fois ou prenez un modèle à plus grande fenêtre",
    },
}

_THREADS: dict[str, dict[Literal["en", "fr"], str]] = {
    "ThreadNotFound": {
        "en": "there is no conversation “{thread_id}” of yours",
        "fr": "vous n’avez pas de conversation « {thread_id} »",
    },
    "EmptyMessage": {
        "en": "the message is empty: write what you want to know or to change",
        "fr": "le message est vide : écrivez ce que vous voulez savoir ou changer",
    },
    "ThreadOfOtherGraph": {
        "en": "conversation “{thread_id}” is about graph “{graph_key}”, not “{asked}”",
        "fr": "la conversation « {thread_id} » concerne le graphe « {graph_key} », pas « {asked} »",
    },
    "ThreadBusy": {
        "en": "conversation “{thread_id}” is being answered elsewhere; wait for it or stop it",
        "fr": "la conversation « {thread_id} » reçoit déjà une réponse ailleurs ; attendez-la ou arrêtez-la",
    },
    "ThreadVersion": {
        "en": "conversation “{thread_id}” was stored in form {found}, which this program does not know:"
        " upgrade it, or begin another conversation",
        "fr": "la conversation « {thread_id} » est stockée sous la forme {found}, inconnue de ce programme :"
        " mettez-le à jour, ou commencez une autre conversation",
    },
    "NothingToResume": {
        "en": "conversation “{thread_id}” waits for nothing: send a message",
        "fr": "la conversation « {thread_id} » n’attend rien : envoyez un message",
    },
    "TurnUnwanted": {
        "en": "the turn of conversation “{thread_id}” was stopped",
        "fr": "le tour de la conversation « {thread_id} » a été arrêté",
    },
}

_LIVE: dict[str, dict[Literal["en", "fr"], str]] = {
    "EditRefused": {
        "en": "{where}: {reason}",
        "fr": "la modification ne convient pas au graphe tel qu’il est ({where})",
    },
    "EditNotFound": {
        "en": "graph “{graph_key}” has no edit “{edit_id}” in its history",
        "fr": "l’historique du graphe « {graph_key} » n’a pas de modification « {edit_id} »",
    },
    "EditNotKept": {
        "en": "the change of graph “{graph_key}” could not be kept; try again",
        "fr": "la modification du graphe « {graph_key} » n’a pas pu être conservée ; réessayez",
    },
    "LiveElsewhere": {
        "en": "graph “{graph_key}” is being edited through another server; try again in a moment",
        "fr": "le graphe « {graph_key} » est modifié par un autre serveur ; réessayez dans un instant",
    },
    "LiveGraphClosed": {
        "en": "graph “{graph_key}” is no longer open here; open it again",
        "fr": "le graphe « {graph_key} » n’est plus ouvert ici ; ouvrez-le à nouveau",
    },
    "LiveError": {
        "en": "live editing is not available now; try again",
        "fr": "la modification en direct n’est pas disponible ; réessayez",
    },
    "WorkersBusy": {
        "en": "{waiting} requests wait already; try again in {retry_after_s} s",
        "fr": "{waiting} requêtes attendent déjà ; réessayez dans {retry_after_s} s",
    },
}

_OTHERS: dict[str, dict[Literal["en", "fr"], str]] = {
    "ServiceUnreachable": {
        "en": "no service answers at {address}",
        "fr": "aucun service ne répond à {address}",
    },
    "ServiceError": {
        "en": "the service refused (HTTP {status}): {reason}",
        "fr": "le service a refusé la demande (HTTP {status})",
    },
    "SettingsError": {
        "en": "setting “{name}” ({origin}): {reason}",
        "fr": "le réglage « {name} » ({origin}) n’a pas une valeur permise",
    },
    "QueryFileError": {"en": "{file}: {reason}", "fr": "les questions de {file} sont illisibles"},
    "UnreadableWorkflow": {
        "en": "{file}: {reason}",
        "fr": "{file} n’est pas un workflow que ce programme sait lire",
    },
    "UnreadableKnowledge": {
        "en": "{sentence}",
        "fr": "{file} n’est pas un fichier de connaissances que ce programme sait lire {where}",
    },
    "PromptError": {
        "en": "prompt “{prompt}”: {reason}",
        "fr": "le prompt « {prompt} » est inutilisable",
    },
    "MalformedArguments": {
        "en": "the arguments are not one JSON object: {reason}",
        "fr": "les arguments ne sont pas un objet JSON",
    },
    "MalformedProposal": {
        "en": "the action's {where} is wrong: {reason}",
        "fr": "l’action est mal formée : {where}",
    },
    "ToonError": {"en": "{sentence}", "fr": "un tableau TOON est mal formé"},
}

ERRORS = {**_DATA, **_MODELS, **_THREADS, **_LIVE, **_OTHERS}
