"""Files that are no workflow are refused with the reason; nothing else is ever raised."""

import asyncio
import gc
import os
import signal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.importers import UnreadableWorkflow, dispatch, import_workflow, workflow_format
from graphrag.importers.reading_files import READER_LIMITS, FileReaders, read_file
from graphrag.workers import WorkersBusy
from mock_data import load_json
from tests.graphrag.importers.helpers import (
    WORKSPACE,
    Workbench,
    assert_sound,
    n8n,
    n8n_node,
    read,
    to,
)
from tests.support.waiting import cancelled, until


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"{nodes", "not JSON .*line 1, column 2"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"\x80abc", "not JSON"),
        (b"3", "a bare int"),
        (b"null", "a bare NoneType"),
        (b"[]", "its JSON list is not"),
        (b'[{"title": "a"}, {"title": "b"}]', "its JSON list is not"),
        (b"{}", "fields: none"),
        (b'{"a": 1, "b": 2}', "fields: a, b"),
        (b'{"nodes": {}, "connections": {}}', "fields: connections, nodes"),
        (b'{"nodes": [{"id": "1"}], "edges": []}', "editor of nodes and edges, not an n8n"),
        (b'{"graph": {}, "nodes": [], "edges": []}', '"configs" are missing'),
        (
            b'[{"nodes": [], "connections": {}}, {"nodes": [], "connections": {}}]',
            "holds 2 n8n workflows",
        ),
        (b'[{"id": "1", "type": "debug"}]', "its JSON list is not"),
        (b'{"nodes":' + b"[" * 300 + b"]" * 300 + b"}", "nested more than"),
        (b"[" * 5000 + b"]" * 5000, "not JSON"),
    ],
)
def test_file_that_is_no_workflow_is_refused_with_the_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(UnreadableWorkflow, match=reason) as refused:
        import_workflow(raw, file_name="some.json", workspace=WORKSPACE)
    assert refused.value.file == "some.json"


@pytest.mark.parametrize("key", ["", "a\nb", "x" * 201])
def test_impossible_graph_key_is_refused(key: str) -> None:
    if key:
        with pytest.raises(UnreadableWorkflow, match="graph key"):
            read(n8n([n8n_node("A")]), graph_key=key)
    else:
        assert read(n8n([n8n_node("A")]), graph_key=key).graph.key == "small-flow-small"


def test_each_format_is_recognised() -> None:
    flow = n8n([n8n_node("A")])
    for document in (flow, [flow], {"workflow": flow}):
        assert read(document).report.format == "n8n"
    step = {"id": "1", "type": "debug", "z": "t", "wires": []}
    for listed in ([step], {"flows": [step]}):
        assert read(listed).report.format == "node-red"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_byte_order_mark_is_no_obstacle(encoding: str) -> None:
    raw = orjson.dumps(n8n([n8n_node("Café")])).decode().encode(encoding)
    assert read(raw).nodes[0].key == "cafe"


_NAMES = st.sampled_from(
    ["A", "B", "a", "", "id-of-A", "Ω", "main", "ai_tool", "x\x00y", "A" * 300]
)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | _NAMES
)


@pytest.mark.parametrize("text", ["[", "<", "eyJ-", "Bearer ", "{{", "sk-", "# ", "*"])
def test_text_made_to_slow_a_reader_down_is_read(text: str) -> None:
    hostile = text * (100_000 // len(text))
    note = n8n_node("N", "n8n-nodes-base.stickyNote", parameters={"content": hostile})
    step = n8n_node(
        hostile, "n8n-nodes-base.code", parameters={"jsCode": hostile, "password": hostile}
    )
    assert_sound(read(n8n([note, step], name=hostile)))


@pytest.mark.slow
def test_many_nodes_of_one_name_are_read() -> None:
    nodes = [n8n_node("A", id=None) for _ in range(2000)]
    result = read(n8n(nodes, {"A": {"main": [[to("A", index=i)] for i in range(2000)]}}))
    assert_sound(result)
    assert len(result.nodes) == 2000


_WORDS = "nodes connections name id type z x y wires flows links node index position parameters main format"
_FIELDS = st.sampled_from(
    [*_WORDS.split(), "graph", "edges", "configs", "formatVersion", "value", "in"]
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_FIELDS | _NAMES, inner, max_size=5)
    ),
)
_KINDS = st.sampled_from(["main", "ai_tool", "onError", "ai_languageModel", "0", "1", ""])
_TARGET = (
    st.fixed_dictionaries({"node": _NAMES | _LEAVES, "type": _KINDS, "index": st.integers(-2, 5)})
    | _JSON
)
_SLOTS = st.lists(st.lists(_TARGET, max_size=3) | _TARGET | st.none(), max_size=3) | _JSON
_N8N_NODE = st.fixed_dictionaries(
    {"name": _NAMES},
    optional={
        "id": _NAMES | _JSON,
        "type": st.sampled_from(
            [
                "n8n-nodes-base.if",
                "n8n-nodes-base.stickyNote",
                "n8n-nodes-base.switch",
                "html",
                "lmChatX",
                ".",
            ]
        )
        | _JSON,
        "typeVersion": _LEAVES,
        "position": st.tuples(_LEAVES, _LEAVES) | _JSON,
        "parameters": _JSON,
        "credentials": _JSON,
        "onError": st.just("continueErrorOutput") | _JSON,
        "notes": _LEAVES,
    },
)
_N8N = st.fixed_dictionaries(
    {
        "nodes": st.lists(_N8N_NODE | _JSON, min_size=1, max_size=5),
        "connections": st.dictionaries(
            _NAMES, st.dictionaries(_KINDS, _SLOTS, max_size=3) | _JSON, max_size=4
        )
        | _JSON,
    },
    optional={
        "name": _LEAVES,
        "id": _LEAVES,
        "pinData": _JSON,
        "meta": _JSON,
        "createdAt": _LEAVES,
    },
)
_RED_IDS = st.sampled_from(["1", "2", "3", "t", "s", "g"])
_RED_NODE = st.fixed_dictionaries(
    {
        "id": _RED_IDS | _JSON,
        "type": st.sampled_from(
            [
                "tab",
                "subflow",
                "group",
                "comment",
                "link in",
                "link out",
                "junction",
                "switch",
                "subflow:s",
                "x",
            ]
        )
        | _LEAVES,
    },
    optional={
        "z": _RED_IDS | _JSON,
        "g": _RED_IDS | _JSON,
        "x": _LEAVES,
        "y": _LEAVES,
        "name": _LEAVES,
        "label": _LEAVES,
        "wires": st.lists(st.lists(_RED_IDS | _JSON, max_size=3) | _JSON, max_size=3) | _JSON,
        "links": st.lists(_RED_IDS | _JSON, max_size=3) | _JSON,
        "nodes": st.lists(_RED_IDS, max_size=3) | _JSON,
        "rules": st.lists(_JSON, max_size=2) | _JSON,
        "in": st.lists(
            st.fixed_dictionaries({"wires": st.lists(_JSON, max_size=2) | _JSON}) | _JSON,
            max_size=2,
        ),
        "out": st.lists(_JSON, max_size=2) | _JSON,
        "status": _JSON,
        "credentials": _JSON,
        "outputLabels": _JSON,
    },
)
_RED = st.lists(_RED_NODE | _JSON, min_size=1, max_size=6)


@pytest.mark.slow
@given(raw=st.binary(max_size=60) | _JSON.map(orjson.dumps))
def test_any_bytes_import_or_are_refused(raw: bytes) -> None:
    try:
        result = import_workflow(raw, file_name="any", workspace=WORKSPACE)
    except UnreadableWorkflow as refused:
        assert refused.reason  # noqa: PT017
    else:
        assert_sound(result)


@given(document=_N8N | _RED)
@pytest.mark.slow
async def test_any_workflow_is_stored_imports_again_unchanged_and_exports_to_itself(
    document: Any,
) -> None:
    raw = orjson.dumps(document)
    try:
        first = import_workflow(raw, file_name="any.json", workspace=WORKSPACE)
    except UnreadableWorkflow:
        return
    assert_sound(first)
    bench = Workbench()
    await bench.take(raw, file_name="any.json")
    key = first.graph.key
    assert (await bench.take(raw, file_name="any.json")).action == "unchanged"
    assert (await bench.take(raw, file_name="any.json", replaces=True)).action == "unchanged"
    copy = await bench.exported(key)
    other = Workbench()
    await other.take(copy, file_name="copy.json")
    assert await other.exported(key) == copy


@given(data=st.data(), name=st.sampled_from(["order_refund.json", "greenhouse_climate.json"]))
@pytest.mark.slow
async def test_damaged_sample_is_stored_or_refused(data: st.DataObject, name: str) -> None:
    document = load_json(f"workflows/{name}")
    for _ in range(data.draw(st.integers(1, 4))):
        _damage(document, data)
    try:
        result = read(document)
    except UnreadableWorkflow:
        return
    assert_sound(result)
    assert (await Workbench().take(document)).action == "created"


def _damage(document: Any, data: st.DataObject) -> None:
    """Replace or remove one value somewhere inside."""
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            place = inner
        elif data.draw(st.booleans()):
            del place[key]
            return
        else:
            place[key] = data.draw(_JSON)
            return


def _file(**fields: Any) -> bytes:
    filled = n8n_node(
        "A", parameters={"jsCode": "x" * READER_LIMITS.small_bytes, "password": "hush"}
    )
    return orjson.dumps(n8n([filled, n8n_node("B")], {"A": {"main": [[to("B")]]}}, **fields))


async def _read(raw: bytes) -> Any:
    return await read_file(raw, file_name="big.json", workspace="w")


@pytest.mark.slow
async def test_a_large_file_is_read_by_a_process_as_a_small_one_is_here() -> None:
    apart = await _read(_file())
    here = import_workflow(_file(), file_name="big.json", workspace="w")
    assert apart == here
    assert [node.to_json() for node in apart.nodes] == [node.to_json() for node in here.nodes]
    assert "password" in apart.report.lines()[0]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (
            b'{"connections":{},"nodes":[' + b'{"typeVersion":1},' * 100_000 + b"{}]}",
            "100,001 nodes, the maximum is 100,000",
        ),
        (b"[" + b"[]," * 9 + b"[]]", "10 values, the maximum is 8;"),
        (
            b'{"nodes":' + b"[" * 101 + b"]" * 101 + b" " * READER_LIMITS.small_bytes + b"}",
            "nested more than 100 levels",
        ),
        (
            orjson.dumps(
                n8n([n8n_node("A")], {"A": {"main": [[to("A", index=i)] for i in range(9)]}})
            ),
            "9 edges, the maximum is 8;",
        ),
    ],
    ids=["nodes", "values", "depth", "edges"],
)
@pytest.mark.slow
async def test_a_bound_that_is_passed_is_named(
    raw: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "maximum is 8;" in reason:
        monkeypatch.setattr(workflow_format, "MAX_EDGES", 8)
        monkeypatch.setattr(dispatch, "MAX_VALUES", 8 if "values" in reason else 1000)
    with pytest.raises(UnreadableWorkflow, match=reason):
        await _read(raw)


_ASKED = {"file_name": "big.json", "workspace": "w"}


async def test_a_file_that_takes_too_long_is_refused_and_its_process_ended(tmp_path: Path) -> None:
    readers, started = _sleeping(tmp_path, time_limit_s=2.0)
    with pytest.raises(UnreadableWorkflow, match=r"longer than 2\.0 s"):
        await readers.read(_file(), **_ASKED)
    assert _has_ended(int(started.read_text()))


async def test_a_process_that_dies_of_a_file_is_a_refusal() -> None:
    for program in ("import os; os.abort()", "pass"):
        with pytest.raises(UnreadableWorkflow, match="2 GiB of memory"):
            await FileReaders(program).read(_file(), **_ASKED)


@pytest.mark.slow
async def test_one_import_too_many_is_refused_for_now() -> None:
    readers = FileReaders(at_once=1, waiting=1)
    done = await asyncio.gather(
        *(readers.read(_file(), **_ASKED) for _ in range(3)), return_exceptions=True
    )
    assert [type(one) for one in done if isinstance(one, Exception)] == [WorkersBusy]
    readers.close()


async def test_the_process_ends_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    readers, started = _sleeping(tmp_path)
    os.mkfifo(started)
    reading = asyncio.create_task(readers.read(_file(), **_ASKED))
    process = int(await asyncio.to_thread(started.read_text))
    await cancelled(reading)
    await until(lambda: _has_ended(process))


def _sleeping(folder: Path, **limits: Any) -> tuple[FileReaders, Path]:
    """Return readers whose process writes its number into a file and reads nothing."""
    started = folder / "started"
    program = (
        f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    return FileReaders(program, **limits), started


def _has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
async def test_files_are_read_by_one_process_one_after_the_other_also_after_a_refusal_and_its_end() -> (
    None
):
    readers = FileReaders(_START_AND_TELL)
    first, second = [
        (await readers.read(_file(name=name), **_ASKED)).graph for name in ("One", "Two")
    ]
    assert (first.name, second.name) == ("One", "Two")
    with pytest.raises(UnreadableWorkflow, match="not JSON"):
        await readers.read(b"[" * READER_LIMITS.small_bytes * 2, **_ASKED)
    process = (await readers.read(_file(), **_ASKED)).graph.workspace
    assert first.workspace == second.workspace == process
    os.kill(int(process), signal.SIGKILL)
    assert (await readers.read(_file(), **_ASKED)).graph.workspace != process
    readers.close()


_START_AND_TELL = (
    "import os, sys; sys.path[:] = sys.argv[1:]; "
    "from graphrag.importers import reading_files as r; read = r.import_workflow; "
    "r.import_workflow = lambda raw, **asked: read(raw, **{**asked, 'workspace': str(os.getpid())}); r.main()"
)
"""A reader whose graphs are of a workspace that is called by the number of its process."""


@pytest.mark.slow
async def test_searching_for_cycles_goes_on_after_the_last_of_several_large_imports() -> None:
    bench = Workbench()
    await asyncio.gather(*(bench.take(_file(), graph_key=key) for key in "ab"))
    assert gc.isenabled()
    with pytest.raises(UnreadableWorkflow):
        await bench.take(b"[" * READER_LIMITS.small_bytes * 2)
    assert gc.isenabled()
