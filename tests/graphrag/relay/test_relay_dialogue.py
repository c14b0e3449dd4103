"""The state machine of a call in words, under any order of what both sides may do."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag.agents.voice_fields import VoiceModel, VoiceOptions
from graphrag.bridge import signals
from graphrag.realtime.session_settings import SessionSettings
from graphrag.relay.relay_dialogue import WELCOME, RelayDialogue
from graphrag.simulator.relay_rules import invalid


def a_session(**changes: Any) -> SessionSettings:
    options = VoiceOptions.model_validate({"engine": "text", **changes.pop("options", {})})
    return SessionSettings(model=VoiceModel(), options=options, instructions="-", **changes)


class Call:
    """A dialogue with a clock; keeps what it asked for."""

    def __init__(self, session: SessionSettings, **more: Any) -> None:
        self.now = 0.0
        self.dialogue = RelayDialogue(session, self.now, **{"speaks_welcome": False, **more})
        self.actions: list[signals.Action] = []
        self.feed(signals.Tick())

    def feed(self, signal: signals.Signal, after_s: float = 0.01) -> None:
        self.now += after_s
        self.actions += self.dialogue.feed(signal, self.now)

    def of(self, kind: type[Any]) -> list[Any]:
        return [action for action in self.actions if isinstance(action, kind)]

    def answer(self, text: str, number: int) -> None:
        self.feed(signals.AnswerWords(number, text))
        self.feed(signals.AnswerEnded(number))


def test_a_protected_greeting_cannot_be_interrupted_and_later_answers_can() -> None:
    call = Call(a_session(greeting="Greet.", greeting_is_interruptible=False))
    call.answer("Hello. ", 1)
    call.feed(signals.CallerWords("Hi."))
    call.answer("Yes? ", 2)
    sent = [action.text for action in call.of(signals.SendPhone)]
    assert [('"interruptible":false' in text) for text in sent] == [True, True, False, False]


def test_barge_in_that_is_off_lets_an_answer_be_written_to_its_end() -> None:
    call = Call(a_session(options={"barge_in": {"mode": "off"}}))
    call.feed(signals.CallerWords("One."))
    call.feed(signals.CallerWords("Two."))
    assert call.of(signals.StopModel) == []
    call.answer("First. ", 1)
    assert [asked.words for asked in call.of(signals.AskModel)] == ["One.", "Two."]


def test_what_is_said_of_the_welcome_until_an_interruption_is_remembered() -> None:
    call = Call(a_session(options={"speech": {"welcome": "Welcome to us."}}), speaks_welcome=True)
    assert "Welcome to us." in call.of(signals.SendPhone)[0].text
    call.feed(signals.CallerInterrupted("Welcome", 300))
    assert call.of(signals.CutAnswer) == [signals.CutAnswer(0, "Welcome")]
    assert call.dialogue.transcript.entries[WELCOME].unheard == "to us."


def test_notes_wait_until_the_agent_and_the_caller_are_silent() -> None:
    call = Call(a_session())
    call.feed(signals.SpeechChanged(is_agent=False, speaks=True))
    call.feed(signals.Note("It was decided."))
    assert call.of(signals.AskModel) == []
    call.feed(signals.SpeechChanged(is_agent=False, speaks=False))
    call.feed(signals.Tick(), 0.5)
    assert call.of(signals.AskModel) == [signals.AskModel(1, "", ("It was decided.",))]


def test_the_last_words_are_not_waited_for_for_ever() -> None:
    call = Call(a_session())
    call.feed(signals.CallerWords("Bye."))
    call.feed(signals.ToolAnswered("c1", "ok", ends=True))
    call.feed(signals.Tick(), 31)
    (over,) = call.of(signals.CallOver)
    assert over.reason == "agent_hung_up"


def test_words_in_a_row_are_bounded() -> None:
    call = Call(a_session())
    for _ in range(50):
        call.feed(signals.CallerWords("x" * 4_000))
    call.feed(signals.AnswerEnded(1))
    assert len(call.of(signals.AskModel)[-1].words) <= 4_000


WORDS = st.sampled_from(["yes", "What is it?", "no " * 50])
SIGNALS = st.one_of(
    st.builds(signals.CallerWords, WORDS, st.booleans()),
    st.builds(signals.CallerInterrupted, WORDS, st.integers(0, 5_000)),
    st.builds(
        lambda who, on: signals.SpeechChanged(is_agent=who, speaks=on), st.booleans(), st.booleans()
    ),
    st.builds(signals.WordsPlayed, WORDS),
    st.builds(signals.AnswerWords, st.integers(1, 6), WORDS),
    st.builds(
        lambda number, failure, may: signals.AnswerEnded(number, failure, may_retry=may),
        st.integers(1, 6),
        st.sampled_from([None, None, "network"]),
        st.booleans(),
    ),
    st.builds(signals.ToolBegan, st.just("c1"), st.just("look")),
    st.builds(lambda ends: signals.ToolAnswered("c1", "ok", ends=ends), st.booleans()),
    st.builds(signals.PhoneDigit, st.sampled_from("1#")),
    st.builds(signals.Note, WORDS),
    st.just(signals.EndWanted("draining")),
    st.just(signals.Tick()),
    st.just(signals.PhoneStopped()),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(SIGNALS, st.floats(0, 40)), max_size=60), st.booleans())
def test_whatever_happens_one_answer_is_written_and_the_call_ends_once(
    happens: list[tuple[signals.Signal, float]], greets: bool
) -> None:
    call = Call(a_session(greeting="Greet." if greets else None, delayed={"look": "One moment."}))
    for signal, after_s in happens:
        call.feed(signal, after_s)
    call.feed(signals.PhoneStopped())
    asked = [action.number for action in call.of(signals.AskModel)]
    assert asked == sorted(set(asked)), "each answer has a number of its own"
    assert len(call.of(signals.CallOver)) == 1
    assert isinstance(call.actions[-1], signals.CallOver)
    assert call.dialogue.next_time() is None
    for action in call.of(signals.SendPhone):
        assert invalid(action.text) is None, action.text
    # an answer is asked for only after the one before was reported as over
    running: int | None = None
    replay = Call(a_session(greeting="Greet." if greets else None, delayed={"look": "One moment."}))
    seen = 0
    for signal, after_s in happens:
        replay.feed(signal, after_s)
        if isinstance(signal, signals.AnswerEnded) and signal.number == running:
            running = None
        for action in replay.actions[seen:]:
            if isinstance(action, signals.AskModel):
                assert running is None
                running = action.number
        seen = len(replay.actions)
