"""What is said in answer to questions, in French and English."""

from __future__ import annotations

from graphrag.messages import Language

READING: dict[str, dict[Language, str]] = {
    "notice": {
        "en": "No language model is configured: this answer comes from rules that read the graph. For a"
        " model,"
        " set DEEPSEEK_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY, or NODIUS_LLM_BASE_URL for a local"
        " server.",
        "fr": "Aucun modèle de langage n’est configuré : cette réponse vient de règles qui lisent le graphe."
        " Pour un"
        " modèle, définissez DEEPSEEK_API_KEY, OPENAI_API_KEY ou ANTHROPIC_API_KEY, ou NODIUS_LLM_BASE_URL"
        " pour"
        " un serveur local.",
    },
    "help_all": {
        "en": "Without a model I understand plain questions and commands:\n"
        "- describe the graph, or a node by its key or name; show its code or a field of it\n"
        "- what comes after or before a node; the path from one node to another\n"
        "- how many nodes, edges or nodes of a type; which types, sheets or unconnected nodes there are\n"
        "- where something happens, by its words\n"
        "- add a node of a type (named, after, before or between others), connect, delete, rename, set a"
        " field,"
        " move, tidy the layout: each becomes a proposal for a person to decide\n"
        "Put names that hold several words in quotes.",
        "fr": "Sans modèle, je comprends des questions et des ordres simples :\n"
        "- décrire le graphe, ou un nœud par sa clé ou son nom ; montrer son code ou un de ses champs\n"
        "- ce qui vient après ou avant un nœud ; le chemin d’un nœud à un autre\n"
        "- combien de nœuds, d’arêtes ou de nœuds d’un type ; quels types, feuilles ou nœuds isolés"
        " existent\n"
        "- où se passe quelque chose, d’après ses mots\n"
        "- ajouter un nœud d’un type (nommé, après, avant ou entre d’autres), relier, supprimer, renommer,"
        " fixer un"
        " champ, déplacer, ranger la disposition : chaque ordre devient une proposition qu’une personne"
        " décide\n"
        "Mettez entre guillemets les noms de plusieurs mots.",
    },
    "help_decide": {
        "en": "I cannot decide a proposal: a person does, beside this answer or with"
        " `nodius review approve|reject ID`.",
        "fr": "Je ne peux pas décider d’une proposition : une personne le fait, à côté de cette réponse ou"
        " avec"
        " `nodius review approve|reject ID`.",
    },
    "help_undo": {
        "en": "I cannot undo: `nodius undo GRAPH` takes the last applied change back.",
        "fr": "Je ne peux pas annuler : `nodius undo GRAPHE` annule le dernier changement appliqué.",
    },
    "help_nothing": {
        "en": "I do nothing then: nothing is proposed.",
        "fr": "Je ne fais donc rien : rien n’est proposé.",
    },
    "no_tool": {
        "en": "I would have to read the graph for this, and no tool for it is at hand.",
        "fr": "Il me faudrait lire le graphe pour cela, et aucun outil n’est disponible.",
    },
    "too_many_rounds": {
        "en": "I could not find this out in few enough steps. Ask more precisely, with a node’s key.",
        "fr": "Je n’ai pas pu le trouver en assez peu d’étapes. Précisez, avec la clé d’un nœud.",
    },
    "read_failed": {
        "en": "The graph could not be read for this: {reason}",
        "fr": "Le graphe n’a pas pu être lu pour cela : {reason}",
    },
    "what_is_it": {
        "en": "I do not know which node {name} stands for. Name it by its key.",
        "fr": "Je ne sais pas quel nœud {name} désigne. Donnez sa clé.",
    },
    "no_such_node": {
        "en": "I found no node called {name}, and none with a name near it.",
        "fr": "Je n’ai trouvé aucun nœud appelé {name}, ni de nom proche.",
    },
    "near_nodes": {
        "en": "I found no node called {name}. Is one of these meant?",
        "fr": "Je n’ai trouvé aucun nœud appelé {name}. S’agit-il de l’un de ceux-ci ?",
    },
    "several_nodes": {
        "en": "Several nodes fit {name}. Which one is meant?",
        "fr": "Plusieurs nœuds correspondent à {name}. Duquel s’agit-il ?",
    },
    "guessed": {
        "en": "I found no node called {name}; the nearest is {node}.",
        "fr": "Je n’ai trouvé aucun nœud appelé {name} ; le plus proche est {node}.",
    },
    "near_types": {
        "en": "Which node type is meant by {name}?",
        "fr": "Quel type de nœud est désigné par {name} ?",
    },
    "no_such_type": {
        "en": "There is no node type called {name}. There are:",
        "fr": "Il n’y a pas de type de nœud appelé {name}. Il y a :",
    },
    "no_such_sheet": {
        "en": "There is no sheet called {name}. There are:",
        "fr": "Il n’y a pas de feuille appelée {name}. Il y a :",
    },
    "sizes": {
        "en": "It has {nodes} nodes and {edges} edges on {sheets} sheet(s): {list}.",
        "fr": "Il a {nodes} nœuds et {edges} arêtes sur {sheets} feuille(s) : {list}.",
    },
    "types_used": {"en": "Types: {types}.", "fr": "Types : {types}."},
    "starts_at": {"en": "It begins at {nodes}.", "fr": "Il commence à {nodes}."},
    "flow": {"en": "From there it runs:", "fr": "De là, il se déroule ainsi :"},
    "hubs": {"en": "Most connected: {nodes}.", "fr": "Les plus reliés : {nodes}."},
    "alone": {"en": "Without any edge: {nodes}{more}.", "fr": "Sans aucune arête : {nodes}{more}."},
    "and_more": {"en": " and {count} more", "fr": " et {count} autres"},
    "count_of_type": {
        "en": "{count} node(s) of type {type}.",
        "fr": "{count} nœud(s) du type {type}.",
    },
    "count_on_sheet": {
        "en": "{count} node(s) on sheet {sheet}.",
        "fr": "{count} nœud(s) sur la feuille {sheet}.",
    },
    "sheet_not_counted": {
        "en": "The graph is too large to count the nodes of sheet {sheet} here.",
        "fr": "Le graphe est trop grand pour compter ici les nœuds de la feuille {sheet}.",
    },
    "count_types": {
        "en": "{used} node type(s) shown as used in this graph; {known} are listed for the workspace.",
        "fr": "{used} type(s) de nœud indiqués comme utilisés dans ce graphe ; {known} listés pour l’espace.",
    },
    "count_all": {
        "en": "The graph has {nodes} nodes and {edges} edges.",
        "fr": "Le graphe a {nodes} nœuds et {edges} arêtes.",
    },
    "sheets": {"en": "{count} sheet(s):", "fr": "{count} feuille(s) :"},
    "nodes_on_it": {"en": " ({count} nodes)", "fr": " ({count} nœuds)"},
    "sampled": {
        "en": "The graph is large: only a part of it was looked at.",
        "fr": "Le graphe est grand : seule une partie a été examinée.",
    },
    "none_alone": {
        "en": "No node without an edge was found.",
        "fr": "Aucun nœud sans arête n’a été trouvé.",
    },
    "these_alone": {"en": "These nodes have no edge:", "fr": "Ces nœuds n’ont aucune arête :"},
    "types": {"en": "{count} node type(s):", "fr": "{count} type(s) de nœud :"},
    "no_description": {"en": "no description", "fr": "pas de description"},
    "type_facts": {
        "en": "Category {category}, from {origin}; {count} node(s) of it here.",
        "fr": "Catégorie {category}, origine {origin} ; {count} nœud(s) de ce type ici.",
    },
    "handles": {"en": "Handles: {handles}.", "fr": "Connecteurs : {handles}."},
    "its_code": {"en": "Its code:", "fr": "Son code :"},
    "code_of_type": {"en": "It runs the code of its type:", "fr": "Il exécute le code de son type :"},
    "of_type": {"en": " of type {type}", "fr": " du type {type}"},
    "on_sheet": {"en": " on sheet {sheet}", "fr": " sur la feuille {sheet}"},
    "no_nodes": {"en": "I found no node{of}.", "fr": "Je n’ai trouvé aucun nœud{of}."},
    "nodes_listed": {"en": "{count} node(s){of}:", "fr": "{count} nœud(s){of} :"},
    "nodes_of_more": {
        "en": "{count} of the {total} nodes{of}:",
        "fr": "{count} des {total} nœuds{of} :",
    },
    "nodes_at_least": {
        "en": "{count} nodes{of}, perhaps there are more:",
        "fr": "{count} nœuds{of}, il y en a peut-être d’autres :",
    },
    "node_is": {
        "en": "{node} is of type {type}, on sheet {sheet}.",
        "fr": "{node} est du type {type}, sur la feuille {sheet}.",
    },
    "reached_from": {"en": "It is reached from {nodes}.", "fr": "On y arrive depuis {nodes}."},
    "leads_to": {"en": "It leads to {nodes}.", "fr": "Il mène à {nodes}."},
    "data": {"en": "Data: {data}", "fr": "Données : {data}"},
    "code_is": {"en": "Code of {node}:", "fr": "Code de {node} :"},
    "code_from_type": {
        "en": "{node} has no code of its own and runs that of its type:",
        "fr": "{node} n’a pas de code propre et exécute celui de son type :",
    },
    "code_goes_on": {
        "en": "The code goes on; this is its beginning.",
        "fr": "Le code continue ; en voici le début.",
    },
    "no_code": {
        "en": "{node} has no code, and neither has its type.",
        "fr": "{node} n’a pas de code, et son type non plus.",
    },
    "field_is": {"en": "{field} of {node}: {value}", "fr": "{field} de {node} : {value}"},
    "no_field": {
        "en": "{node} has no field {field}. Its fields: {fields}.",
        "fr": "{node} n’a pas de champ {field}. Ses champs : {fields}.",
    },
    "around_out": {"en": "After {node}:", "fr": "Après {node} :"},
    "around_in": {"en": "Before {node}:", "fr": "Avant {node} :"},
    "around_any": {"en": "Around {node}:", "fr": "Autour de {node} :"},
    "nothing_out": {"en": "Nothing comes after {node}.", "fr": "Rien ne vient après {node}."},
    "nothing_in": {"en": "Nothing comes before {node}.", "fr": "Rien ne vient avant {node}."},
    "nothing_any": {"en": "{node} has no edge.", "fr": "{node} n’a aucune arête."},
    "comes_after": {"en": "after it: ", "fr": "après : "},
    "comes_before": {"en": "before it: ", "fr": "avant : "},
    "more_around": {"en": "There are more than are shown.", "fr": "Il y en a plus que montré."},
    "path": {
        "en": "From {start} to {end} in {steps} step(s):",
        "fr": "De {start} à {end} en {steps} étape(s) :",
    },
    "no_path": {
        "en": "No path leads from {start} to {end}.",
        "fr": "Aucun chemin ne mène de {start} à {end}.",
    },
    "no_short_path": {
        "en": "I found no path from {start} to {end} within about {reach} steps; longer ones were not looked"
        " for.",
        "fr": "Je n’ai trouvé aucun chemin de {start} à {end} en {reach} étapes environ ; les plus longs"
        " n’ont pas"
        " été cherchés.",
    },
    "path_back": {"en": "The other way there is one:", "fr": "Dans l’autre sens, il y en a un :"},
    "same_node": {"en": "Both names mean {node}.", "fr": "Les deux noms désignent {node}."},
    "nothing_found": {
        "en": "I found nothing in this graph for {query}. Ask with other words, or “help”.",
        "fr": "Je n’ai rien trouvé dans ce graphe pour {query}. Essayez d’autres mots, ou « aide ».",
    },
    "found": {
        "en": "These nodes fit the words of the question best; no model has judged them:",
        "fr": "Ces nœuds correspondent le mieux aux mots de la question ; aucun modèle ne les a jugés :",
    },
    "edges_among": {"en": "Edges among them:", "fr": "Arêtes entre eux :"},
    "ask_more": {
        "en": "Ask for one of them by its key to read more.",
        "fr": "Demandez l’un d’eux par sa clé pour en lire plus.",
    },
}
