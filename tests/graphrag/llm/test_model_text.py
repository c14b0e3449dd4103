"""Whatever marks a model's template leaves in its text, a person reads the answer, and
nothing of them.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.model_words import Words, words_of

TOOLS = ("search_nodes", "read_node_detail")
ARGUMENTS: dict[str, Any] = {"query": "players", "limit": "3"}
ASKED = json.dumps(ARGUMENTS)
ANSWER = "The node logs it."
THOUGHT = "secret: maybe search?"

THINKING = {
    "<think>": f"<think>{THOUGHT}</think>\n\n{ANSWER}",
    "<think> on lines of its own": f"<think>\n{THOUGHT}\n</think>\n{ANSWER}",
    "<thinking>": f"<thinking>{THOUGHT}</thinking>{ANSWER}",
    "<THINK>": f"<THINK>{THOUGHT}</Think>\n{ANSWER}",
    "<thought>": f"<thought>{THOUGHT}</thought>\n{ANSWER}",
    "<reasoning>": f"<reasoning>{THOUGHT}</reasoning>\n{ANSWER}",
    "<seed:think>": f"<seed:think>{THOUGHT}</seed:think>{ANSWER}",
    "<think> with an attribute": f'<think type="long">{THOUGHT}</think>{ANSWER}',
    "[THINK]": f"[THINK]{THOUGHT}[/THINK]{ANSWER}",
    "Kimi": f"◁think▷{THOUGHT}◁/think▷{ANSWER}",
    "Command": f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>{ANSWER}<|END_RESPONSE|>",
    "Sky": f"<|begin_of_thought|>{THOUGHT}<|end_of_thought|><|begin_of_solution|>{ANSWER}<|end_of_solution|>",
    "Open WebUI": f'<details type="reasoning" done="true"><summary>1</summary>{THOUGHT}</details>\n{ANSWER}',
    "gpt-oss": f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>"
    f"{ANSWER}<|return|>",
    "Gemma": f"<|channel>thought\n{THOUGHT}<channel|>{ANSWER}<turn|>",
    "with its answer between tags": f"<think>{THOUGHT}</think>\n<answer>{ANSWER}</answer>",
    "no opening tag": f"{THOUGHT}\n</think>\n\n{ANSWER}",
    "no opening tag, in one line": f"{THOUGHT}</think>{ANSWER}",
    "no opening tag, other tag": f"{THOUGHT}[/THINK]{ANSWER}",
    "twice": f"<think>{THOUGHT}</think><think>{THOUGHT}</think>{ANSWER}",
    "a tag within it": f"<think>{THOUGHT} <b>bold</b> `x`</think>{ANSWER}",
}
ENDS = (
    *(
        "<|im_end|>",
        "<|eot_id|><|end_of_text|>",
        "<|endoftext|>",
        "</s>",
        "<end_of_turn>",
        "<|eom_id|>",
    ),
    *(
        "<｜end▁of▁sentence｜>",
        "<|return|>",
        "<|END_OF_TURN_TOKEN|>",
        "<eos>",
        "[/INST]",
        "<turn|>",
        "<|end|>",
    ),
    *(
        "<|im_end|>\n<|im_start|>user\nAnd the next one?<|im_end|>",
        "<|im_end|>\n<|im_start|>assistant\n",
    ),
    *(
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd now?",
        "<end_of_turn>\n<start_of_turn>user\nMore?",
    ),
    "<|user|>\nAnd the next one?",
)
BEGINNINGS = (
    *(
        "<|im_start|>assistant\n",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<start_of_turn>model\n",
    ),
    *(
        "<|start|>assistant<|channel|>final<|message|>",
        "<|channel|>final<|message|>",
        "<|assistant|>\n",
    ),
    *("<｜Assistant｜>", "<|begin_of_text|>", "[gMASK]<sop>", "<|channel|>commentary<|message|>"),
)
PARAMETERS = "".join(
    f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in ARGUMENTS.items()
)
NAMED = "".join(f'<parameter name="{key}">{value}</parameter>' for key, value in ARGUMENTS.items())
PAIRS = "".join(
    f"<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n" for k, v in ARGUMENTS.items()
)
DSML = "".join(
    f'<｜DSML｜parameter name="{k}" string="true">{v}</｜DSML｜parameter>\n'
    for k, v in ARGUMENTS.items()
)
GEMMA = '{query:<|"|>players<|"|>,limit:<|"|>3<|"|>}'
CALLS = {
    "gpt-oss": f"<|channel|>commentary to=functions.search_nodes <|constrain|>json<|message|>{ASKED}<|call|>",
    "gpt-oss, the receiver first": f"<|start|>assistant to=functions.search_nodes<|channel|>commentary json"
    f"<|message|>{ASKED}<|call|>",
    "gpt-oss, thinking before": f"<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>"
    f"commentary to=functions.search_nodes <|constrain|>json<|message|>{ASKED}<|call|>",
    "Qwen3-Coder": f"<tool_call>\n<function=search_nodes>\n{PARAMETERS}</function>\n</tool_call>",
    "Qwen3-Coder without its outer tag": f"<function=search_nodes>\n{PARAMETERS}</function>",
    "Llama": f"<function=search_nodes>{ASKED}</function>",
    "Llama, as Python": '[search_nodes(query="players", limit="3")]',
    "Claude": f'<function_calls>\n<invoke name="search_nodes">\n{NAMED}\n</invoke>\n</function_calls>',
    "MiniMax": f'<minimax:tool_call>\n<invoke name="search_nodes">\n{NAMED}\n</invoke>\n</minimax:tool_call>',
    "DeepSeek V3.2": f'<｜DSML｜function_calls>\n<｜DSML｜invoke name="search_nodes">\n{DSML}'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "DeepSeek R1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search_nodes\n"
    f"```json\n{ASKED}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
    "DeepSeek V3.1": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search_nodes<｜tool▁sep｜>{ASKED}"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.search_nodes:0"
    f"<|tool_call_argument_begin|>{ASKED}<|tool_call_end|><|tool_calls_section_end|>",
    "GLM": f"<tool_call>search_nodes\n{PAIRS}</tool_call>",
    "Gemma": f"<|tool_call>call:search_nodes{GEMMA}<tool_call|>",
    "FunctionGemma": "<start_function_call>call:search_nodes{query:<escape>players<escape>,"
    "limit:<escape>3<escape>}<end_function_call>",
    "Gemma in code": '```tool_code\nsearch_nodes(query="players", limit="3")\n```',
    "Mistral": f"[TOOL_CALLS]search_nodes[ARGS]{ASKED}</s>",
    "LFM2": '<|tool_call_start|>[search_nodes(query="players", limit="3")]<|tool_call_end|>',
    "Granite": f'<|tool_call|>[{{"name": "search_nodes", "arguments": {ASKED}}}]',
    "Command": f'<|START_ACTION|>[{{"tool_name": "search_nodes", "parameters": {ASKED}}}]<|END_ACTION|>',
    "Hunyuan": f'<tool_calls>[{{"name": "search_nodes", "arguments": {ASKED}}}]</tool_calls>',
    "InternLM": f'<|action_start|><|plugin|>{{"name": "search_nodes", "parameters": {ASKED}}}<|action_end|>',
    "an object of calls": f'{{"tool_calls": [{{"name": "search_nodes", "arguments": {ASKED}}}]}}',
    "tags in a block of code": f"```xml\n<tool_call>search_nodes\n{PAIRS}</tool_call>\n```",
    "a name in tags": f"<tool_call><name>search_nodes</name><arguments>{ASKED}</arguments></tool_call>",
}


def cuts(text: str, seed: int) -> list[str]:
    chance = random.Random(seed)
    pieces = list[str]()
    while text:
        size = chance.randint(1, 7)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def each_cut(text: str, **more: Any) -> Iterator[Words]:
    for pieces in ([text], list(text), *(cuts(text, seed) for seed in range(8))):
        yield words_of(pieces, TOOLS, **more)


@pytest.mark.parametrize("name", [*THINKING])
def test_thinking_between_tags_is_no_part_of_the_answer(name: str) -> None:
    for words in each_cut(THINKING[name]):
        assert (words.text, words.calls, words.leaked) == (ANSWER, [], False)
        assert THOUGHT in words.thinking


@pytest.mark.parametrize("name", [*(name for name in THINKING if name.startswith("no opening"))])
def test_where_the_opening_tag_may_be_missing_nothing_of_the_thinking_is_ever_sent(
    name: str,
) -> None:
    for words in each_cut(THINKING[name], holds_beginning=True):
        assert (words.streamed, words.began_in_thinking) == (ANSWER, True)


def test_held_text_that_is_no_thinking_is_the_answer() -> None:
    for words in each_cut(ANSWER, holds_beginning=True):
        assert (words.text, words.thinking, words.began_in_thinking) == (ANSWER, "", False)


def test_thinking_that_never_ends_is_no_answer() -> None:
    for words in each_cut(f"<think>{THOUGHT}"):
        assert (words.text, words.thinking) == ("", THOUGHT)


@pytest.mark.parametrize("mark", [*ENDS])
def test_marks_after_an_answer_are_dropped_and_what_belongs_to_another_turn(mark: str) -> None:
    for words in each_cut(f"{ANSWER}{mark}"):
        assert (words.text.rstrip(), words.calls, words.leaked) == (ANSWER, [], False)


@pytest.mark.parametrize("mark", [*BEGINNINGS])
def test_marks_before_an_answer_are_dropped(mark: str) -> None:
    for words in each_cut(f"{mark}{ANSWER}"):
        assert (words.text.strip(), words.calls, words.leaked) == (ANSWER, [], False)


@pytest.mark.parametrize("name", [*CALLS])
def test_a_call_in_any_form_of_a_template_is_a_call_and_not_shown(name: str) -> None:
    for before in ("", "<think>I look.</think>\n"):
        for words in each_cut(before + CALLS[name]):
            assert (words.text.strip(), words.leaked) == ("", False)
            [call] = words.calls
            assert call.name == "search_nodes"
            assert json.loads(call.arguments) == ARGUMENTS


@pytest.mark.parametrize(
    "text",
    [
        f"assistantcommentary to=functions.search_nodes json{ASKED}",
        f"Action: search_nodes\nAction Input: {ASKED}",
    ],
)
def test_a_call_after_a_heading_of_plain_words_is_a_call(text: str) -> None:
    for pieces in ([text], [text[:4], text[4:]], [text[:9], *text[9:]]):
        words = words_of(pieces, TOOLS)
        assert (words.text, words.leaked) == ("", False)
        assert [json.loads(call.arguments) for call in words.calls] == [ARGUMENTS]


@pytest.mark.parametrize(
    "name", [*(name for name in CALLS if "<" in CALLS[name] and "```" not in CALLS[name])]
)
def test_a_call_of_no_known_tool_between_marks_is_taken_out(name: str) -> None:
    for words in each_cut(CALLS[name].replace("search_nodes", "drop_tables")):
        assert (words.text.strip(), words.calls) == ("", [])
        assert words.leaked


@pytest.mark.parametrize(
    "text",
    [
        "Reasoning models write:\n```\n<think>\nfirst this\n</think>\nthen more<|im_end|>\n```\nThat is all.",
        "The tag `<think>` opens it, `</think>` closes it, and `<|im_end|>` ends the message.",
        'A call looks like:\n\n```xml\n<tool_call>\n{"name": "search_nodes"}\n</tool_call>\n```\n'
        "It finds nodes.",
        "~~~\n<|channel|>final<|message|>\n~~~",
        "Use ``<tool_call>`` or `[TOOL_CALLS]`, not both.",
        "1. ```\n   [INST] x [/INST]\n   ```\nand so on",
        "if a < b and c > d: x <- [1, 2] | y",
        "<b>bold</b> and <table>\n<tr><td>1</td></tr>\n</table>",
        "The <think> tag is written where the template says so.",
        "f <| g x |> h",
        "A [TODO] and a [link](https://a.example)",
    ],
)
def test_what_speaks_about_marks_in_code_stays_readable(text: str) -> None:
    for words in each_cut(text):
        assert (words.text, words.calls, words.leaked) == (text, [], False)


def test_a_call_that_was_cut_off_is_never_run() -> None:
    for text in (
        f'<tool_call>{{"name": "search_nodes", "arguments": {ASKED}',
        CALLS["gpt-oss"][:-9],
    ):
        for words in each_cut(text, finish="length"):
            assert words.calls == []


def test_halves_of_a_character_are_joined_over_pieces() -> None:
    rocket, half = "\ud83d\ude80", "\ud83d"
    assert words_of(["Hi \ud83d", "\ude80 ok"]).text == "Hi 🚀 ok"
    assert words_of([f"a{half}", "b", half]).text == "a\ufffdb\ufffd"
    assert words_of([f"<think>{half}", f"\ude80</think>{rocket}"]).text == "🚀"


marks = st.sampled_from(
    [
        *(
            "<think>",
            "</think>",
            "<|im_end|>",
            "`",
            "```",
            "\n",
            "<|channel|>",
            "<|message|>",
            "<tool_call>",
            " ",
        ),
        *(
            "</tool_call>",
            "[TOOL_CALLS]",
            "analysis",
            "{",
            "}",
            "<",
            "|>",
            "a",
            "<|channel>",
            "<channel|>",
            "user",
        ),
        *(
            "<|start|>",
            "assistant",
            "<function=",
            ">",
            "\ud83d",
            "\ude80",
            "<details",
            "to=functions.",
        ),
    ]
)


@given(st.lists(marks, max_size=14), st.integers(0, 1_000))
def test_however_an_answer_is_cut_the_same_is_read(parts: list[str], seed: int) -> None:
    text = "".join(parts)
    whole = words_of([text], TOOLS)
    cut = words_of(cuts(text, seed), TOOLS)
    assert (whole.text, whole.thinking, whole.leaked) == (cut.text, cut.thinking, cut.leaked)
    assert "\ud83d" not in whole.text


HOSTILE = (
    *(
        "<",
        "```",
        "`a",
        "\n",
        " ",
        "{",
        "[",
        "tool call: ",
        "[T",
        "a <think>",
        "a <think>b</think> ",
        "x</think>",
    ),
    *(
        "<|start|>",
        "<|channel|>",
        '<details type="reasoning" ',
        "<think ",
        "<arg_key>a</arg_key><arg_value>b",
    ),
    *(
        '{"name":"search_nodes","arguments":{}}\n',
        "<name>search_nodes</name><arguments>",
        "search_nodes(",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("text", [*HOSTILE])
def test_a_hostile_answer_takes_time_that_grows_with_it(text: str) -> None:
    whole = text * (20_000 // len(text))
    for before in ("", "<tool_call>", "<function=search_nodes><parameter=a>", "call:search_nodes"):
        assert words_of([before, *(whole[i : i + 7] for i in range(0, len(whole), 7))], TOOLS)
