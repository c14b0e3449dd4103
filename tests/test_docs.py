"""README cannot drift: its generated parts, its examples, its links."""

from __future__ import annotations

import io
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.__main__ import DESCRIPTIONS, DOCUMENTS, main
from tests.docs.__main__ import PARTS as KNOWN_PARTS
from tests.docs.program import ROOT
from tests.docs.rendering import DocsError, names_of_parts, render
from tests.examples import examples_of, matches
from tests.support.commands import run_command

README = ROOT / "README.md"
REFERENCE = ROOT / "docs" / "reference.md"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
MEASUREMENTS = ROOT / "docs" / "measurements.md"
MAX_README_LINES = 180
PARTS = {"one": lambda: "new\n", "two": lambda: "2"}
DOCUMENT = (
    "a\n<!-- generated:one -->\nold\n<!-- end -->\nb\n<!-- generated:two -->\n<!-- end -->\n"
    "<!-- generated:benchmarks -->\nmeasured\n<!-- end -->\n"
)


def test_parts_are_replaced_and_the_rest_is_kept() -> None:
    assert render(DOCUMENT, PARTS) == (
        "a\n<!-- generated:one -->\nnew\n<!-- end -->\nb\n<!-- generated:two -->\n2\n<!-- end -->\n"
        "<!-- generated:benchmarks -->\nmeasured\n<!-- end -->\n"
    )


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (
            DOCUMENT.replace("generated:two", "generated:three"),
            "nothing generates the part 'three'",
        ),
        (DOCUMENT + "<!-- generated:what -->\n<!-- end -->\n", "nothing generates the part 'what'"),
        (DOCUMENT.replace("2\n<!-- end -->", ""), "has no <!-- end -->"),
        (DOCUMENT + "<!-- end -->\n", "or the other way round"),
        (DOCUMENT + "<!-- generated:one -->\n<!-- end -->\n", "more than one part is called one"),
    ],
)
def test_wrong_marks_are_said(document: str, reason: str) -> None:
    if reason.startswith("has no"):
        document = document.replace("measured\n<!-- end -->\n", "measured\n")
    with pytest.raises(DocsError, match=re.escape(reason)):
        render(document, PARTS)


@pytest.fixture
def benchmarks(tmp_path: Path) -> Path:
    return copy_of(BENCHMARKS, tmp_path)


def copy_of(document: Path, folder: Path) -> Path:
    return Path(shutil.copy(document, folder))


@pytest.mark.parametrize(
    ("document", "part", "written", "wrong"),
    [
        (REFERENCE, "settings", "| `budget_tokens` |", "| `budget` |"),
        (MEASUREMENTS, "scale", "| embed-nodes, µs a node | ", "| embed-nodes, µs a node | 1"),
    ],
)
def test_check_names_what_drifted_and_writes_nothing(
    document: Path,
    part: str,
    written: str,
    wrong: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = copy_of(document, tmp_path)
    drifted = copy.read_text(encoding="utf-8").replace(written, wrong)
    copy.write_text(drifted, encoding="utf-8")
    assert main(["--check"], [copy]) == 1
    assert (
        capsys.readouterr().err == f"{copy.name}: {part} drifted from its source; run `make docs`\n"
    )
    assert copy.read_text(encoding="utf-8") == drifted
    assert main([], [copy]) == 0
    assert main(["--check"], [copy]) == 0


def test_measured_parts_take_a_commands_output(
    benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for printed, written in [
        ("\n2 cores\n\n| nodes |\n|---:|\n| 7 |\n", "2 cores\n\n| nodes |\n|---:|\n| 7 |"),
        ("retrieval  MRR\nhybrid     0.7\n", "```text\nretrieval  MRR\nhybrid     0.7\n```"),
    ]:
        monkeypatch.setattr("sys.stdin", io.StringIO(printed))
        assert main(["--fill", "benchmarks"], [benchmarks]) == 0
        filled = benchmarks.read_text(encoding="utf-8")
        assert f"<!-- generated:benchmarks -->\n{written}\n<!-- end -->" in filled
        assert main(["--check"], [benchmarks]) == 0


def test_every_document_is_up_to_date_and_every_part_is_shown_once() -> None:
    shown = [
        name for path in DOCUMENTS for name in names_of_parts(path.read_text(encoding="utf-8"))
    ]
    assert sorted(name for name in shown if name in KNOWN_PARTS) == sorted(KNOWN_PARTS)
    assert len(shown) == len(set(shown))


def test_the_description_of_the_service_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in DESCRIPTIONS:
        (tmp_path / name).parent.mkdir()
    assert main(["--check"], [], tmp_path) == 1
    said = "".join(
        f"{Path(name).name}: drifted from its source; run `make docs`\n" for name in DESCRIPTIONS
    )
    assert capsys.readouterr().err == said
    assert main([], [], tmp_path) == 0
    assert main(["--check"], [], tmp_path) == 0


def test_the_readme_stays_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MAX_README_LINES


@pytest.mark.parametrize("document", [*DOCUMENTS])
def test_relative_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in t]
    assert [target for target in targets if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", [*DOCUMENTS])
def test_links_into_a_document_name_one_of_its_headings(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
        aimed = (document.parent / target) if target else document
        headings = re.findall(r"^#+ (.+)$", aimed.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings]
        assert anchor in anchors, f"{document.name} links to {target}#{anchor}"


# Examples


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (("a", "b"), "a\nb\n", True),
        (("a", "b"), "\na  \nb\n\n", True),
        (("a",), "a\nb\n", False),
        (("a", "…"), "a\nb\nc\n", True),
        (("a", "…"), "a\n", True),
        (("…", "c"), "a\nb\nc\n", True),
        (("…", "d"), "a\nb\nc\n", False),
        (("a …",), "a long line\n", True),
        (("a …",), "ab\n", False),
        (("in 3.2 ms",), "in 70.15 ms\n", True),
        (("in 3 nodes",), "in 4 nodes\n", False),
        (("a.c",), "abc\n", False),
    ],
)
def test_outputs_are_compared_without_times_and_elisions(
    shown: tuple[str, ...], printed: str, same: bool
) -> None:
    assert matches(shown, printed) is same


def test_the_readmes_examples_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [
        name for name in os.environ if name.startswith("NODIUS_") or name.endswith("_API_KEY")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    examples = examples_of(README.read_text(encoding="utf-8"))
    assert len(examples) >= 5
    for example in examples:
        printed = run_command(*example.arguments, catch_exceptions=True).output
        # How far a slow machine is stands between the lines, on one that is quick enough nothing.
        printed = re.sub(r"^embedding nodes: .*\n", "", printed, flags=re.MULTILINE)
        assert matches(example.output, printed), f"$ {example.command}\n{printed}"
