"""What is said of changes asked for, in French and English."""

from __future__ import annotations

from graphrag.messages import Language

CHANGES: dict[str, dict[Language, str]] = {
    "no_write_tool": {
        "en": "I cannot propose this change here: your access permits reading only, or the tool for it is"
        " not at hand."
        " An editor can ask for it.",
        "fr": "Je ne peux pas proposer ce changement ici : votre accès ne permet que la lecture, ou l’outil"
        " n’est pas"
        " disponible. Un éditeur peut le demander.",
    },
    "nothing_proposed": {
        "en": "I have proposed nothing. Say it again with a key.",
        "fr": "Je n’ai rien proposé. Redites-le avec une clé.",
    },
    "propose": {"en": "I propose to {what}.", "fr": "Je propose de {what}."},
    "reason": {"en": "asked for: {what}", "fr": "demandé : {what}"},
    "new_node": {"en": "create a node of type {type}", "fr": "créer un nœud du type {type}"},
    "placed_after": {"en": "after {node}", "fr": "après {node}"},
    "placed_before": {"en": "before {node}", "fr": "avant {node}"},
    "edge_goes": {
        "en": "The edge {edge} between them goes.",
        "fr": "L’arête {edge} entre eux disparaît.",
    },
    "which_type": {
        "en": "Of which type should the new node be? Say it again with one of these:",
        "fr": "De quel type doit être le nouveau nœud ? Redites-le avec l’un de ceux-ci :",
    },
    "cannot_follow": {
        "en": "A node of this type has no input that fits an output of {node}. I have proposed nothing.",
        "fr": "Un nœud de ce type n’a pas d’entrée qui convienne à une sortie de {node}. Je n’ai rien"
        " proposé.",
    },
    "cannot_precede": {
        "en": "A node of this type has no output that fits an input of {node}. I have proposed nothing.",
        "fr": "Un nœud de ce type n’a pas de sortie qui convienne à une entrée de {node}. Je n’ai rien"
        " proposé.",
    },
    "an_edge": {
        "en": "connect {source} to {target}, from its output {output}",
        "fr": "relier {source} à {target}, depuis sa sortie {output}",
    },
    "other_outputs": {"en": "(it also has {outputs})", "fr": "(il a aussi {outputs})"},
    "none": {"en": "none", "fr": "aucune"},
    "no_output": {
        "en": "{node} has no output {name}; it has: {outputs}. I have proposed nothing.",
        "fr": "{node} n’a pas de sortie {name} ; il a : {outputs}. Je n’ai rien proposé.",
    },
    "no_fitting_handles": {
        "en": "No output of {source} ({outputs}) fits an input of {target} ({inputs}). I have proposed"
        " nothing.",
        "fr": "Aucune sortie de {source} ({outputs}) ne convient à une entrée de {target} ({inputs})."
        " Je n’ai rien proposé.",
    },
    "delete": {"en": "delete {what}", "fr": "supprimer {what}"},
    "edges_go": {"en": "and with it {count} edge(s)", "fr": "et avec {count} arête(s)"},
    "no_edge_goes": {"en": "(no edge goes with it)", "fr": "(aucune arête ne disparaît avec)"},
    "the_edge": {
        "en": "the edge {key} between {source} and {target}",
        "fr": "l’arête {key} entre {source} et {target}",
    },
    "not_connected": {
        "en": "No edge connects {source} and {target}. I have proposed nothing.",
        "fr": "Aucune arête ne relie {source} et {target}. Je n’ai rien proposé.",
    },
    "several_edges": {
        "en": "Several edges connect {source} and {target}. Which one? Say: delete edge KEY",
        "fr": "Plusieurs arêtes relient {source} et {target}. Laquelle ? Dites : supprime l’arête CLÉ",
    },
    "rename": {"en": "rename {node} to “{name}”", "fr": "renommer {node} en « {name} »"},
    "set": {
        "en": "set {field} of {node} to {value}",
        "fr": "mettre {field} de {node} à {value}",
    },
    "near_fields": {
        "en": "{node} has no field {field}. Is one of these meant: {fields}? I have proposed nothing.",
        "fr": "{node} n’a pas de champ {field}. S’agit-il de l’un de ceux-ci : {fields} ? Je n’ai rien"
        " proposé.",
    },
    "move": {"en": "move {node} to {x}, {y}", "fr": "déplacer {node} en {x}, {y}"},
    "side_right": {"en": "to the right of {node}", "fr": "à droite de {node}"},
    "side_left": {"en": "to the left of {node}", "fr": "à gauche de {node}"},
    "side_up": {"en": "above {node}", "fr": "au-dessus de {node}"},
    "side_down": {"en": "below {node}", "fr": "en dessous de {node}"},
    "no_sheet_move": {
        "en": "A node cannot be moved to another sheet here: its edges stay on one sheet. Create it there and"
        " delete it here instead. I have proposed nothing.",
        "fr": "Un nœud ne peut pas changer de feuille ici : ses arêtes restent sur une seule feuille."
        " Créez-le"
        " là-bas et supprimez-le ici. Je n’ai rien proposé.",
    },
    "tidy": {"en": "arrange {of}", "fr": "disposer {of}"},
    "all_nodes": {"en": "all {count} nodes{of}", "fr": "les {count} nœuds{of}"},
    "too_many_to_list": {
        "en": "I can name only {listed} of {total} nodes, so I have proposed nothing. Say which sheet or"
        " which nodes.",
        "fr": "Je ne peux nommer que {listed} nœuds sur {total} ; je n’ai donc rien proposé. Dites quelle"
        " feuille"
        " ou quels nœuds.",
    },
    "not_possible": {
        "en": "The change was not accepted as a proposal; nothing has changed:",
        "fr": "Le changement n’a pas été accepté comme proposition ; rien n’a changé :",
    },
    "outcome_unknown": {
        "en": "I was not told what became of the proposal. Look at `nodius review list`.",
        "fr": "Je n’ai pas su ce qu’est devenue la proposition. Voyez `nodius review list`.",
    },
    "outcome_pending": {
        "en": "The change is proposed. Nothing has changed yet: a person decides.",
        "fr": "Le changement est proposé. Rien n’a encore changé : une personne décide.",
    },
    "outcome_applied": {"en": "It was approved and is done.", "fr": "C’est approuvé et fait."},
    "outcome_edited": {
        "en": "It was approved in another form, and that is done.",
        "fr": "C’est approuvé sous une autre forme, et c’est fait.",
    },
    "outcome_undone": {
        "en": "It was done, and taken back since.",
        "fr": "C’était fait, puis annulé.",
    },
    "outcome_rejected": {
        "en": "It was rejected; nothing has changed.",
        "fr": "C’est rejeté ; rien n’a changé.",
    },
    "outcome_expired": {
        "en": "Nobody decided in time; nothing has changed.",
        "fr": "Personne n’a décidé à temps ; rien n’a changé.",
    },
    "outcome_stale": {
        "en": "The graph changed meanwhile, so it was not done.",
        "fr": "Le graphe a changé entre-temps : ce n’est pas fait.",
    },
    "outcome_failed": {
        "en": "It failed; nothing has changed.",
        "fr": "Cela a échoué ; rien n’a changé.",
    },
    "outcome_other": {"en": "This is what came of it:", "fr": "Voici ce qu’il en est :"},
    "created": {"en": "New: {nodes}", "fr": "Nouveau : {nodes}"},
    "incomplete_connect": {
        "en": "Which nodes should be connected? Say: connect X to Y",
        "fr": "Quels nœuds faut-il relier ? Dites : relie X à Y",
    },
    "incomplete_delete": {
        "en": "What should be deleted? Name the node, or say: delete the edge from X to Y",
        "fr": "Que faut-il supprimer ? Nommez le nœud, ou dites : supprime l’arête de X à Y",
    },
    "incomplete_rename": {
        "en": "Which node, and what should it be called? Say: rename X to Y",
        "fr": "Quel nœud, et comment doit-il s’appeler ? Dites : renomme X en Y",
    },
    "incomplete_set": {
        "en": "Which field of which node? Say: set FIELD of X to VALUE",
        "fr": "Quel champ de quel nœud ? Dites : mets CHAMP de X à VALEUR",
    },
    "incomplete_move": {
        "en": "Where to? Say: move X to the right of Y, move X to 400, 200, or move X left by 100",
        "fr": "Où donc ? Dites : déplace X à droite de Y, déplace X en 400, 200, ou déplace X vers la gauche"
        " de 100",
    },
    "incomplete_create": {
        "en": "Between which nodes? Say: add a TYPE between X and Y",
        "fr": "Entre quels nœuds ? Dites : ajoute un TYPE entre X et Y",
    },
}
