"""What a caller has heard is known from the telephone service's events, or estimated."""

from graphrag.relay.agent_speech import CHARS_A_S, PAUSE_S, START_S, AgentSpeech, heard_length

TEXT = "We open at nine. We close at six."


def test_without_events_speech_takes_as_long_as_its_characters() -> None:
    speech = AgentSpeech()
    speech.add("a", TEXT, 10.0)
    whole_s = START_S + len(TEXT) / CHARS_A_S
    assert speech.is_speaking(10.0 + whole_s - 0.01)
    assert not speech.is_speaking(10.0 + whole_s + 0.01)
    assert speech.heard(10.0) == {"a": ""}
    assert speech.heard(10.0 + START_S + 17 / CHARS_A_S) == {"a": "We open at nine."}
    assert speech.heard(10.0 + whole_s + 1) == {}, "all of it was heard"


def test_an_event_ends_speech_earlier_and_the_next_sentence_goes_on() -> None:
    speech = AgentSpeech()
    speech.add("a", TEXT, 0.0)
    speech.changed(0.4, speaks=True)
    speech.changed(1.0, speaks=False)
    assert speech.is_speaking(1.0 + PAUSE_S - 0.01)
    speech.changed(1.2, speaks=True)
    assert speech.is_speaking(4.0)
    speech.changed(5.0, speaks=False)
    assert not speech.is_speaking(5.0 + PAUSE_S)


def test_reported_words_count_and_not_the_time() -> None:
    speech = AgentSpeech()
    speech.add("a", "We open at nine. ", 0.0)
    speech.add("b", "We close at six.", 0.1)
    speech.changed(0.5, speaks=True)
    speech.played("We open at nine. We ")
    assert speech.heard(0.6) == {"a": "We open at nine. ", "b": "We"}


def test_an_interruption_says_how_much_of_each_piece_was_heard() -> None:
    speech = AgentSpeech()
    speech.add("a", "Let me look. ", 0.0)
    speech.add("b", TEXT, 0.1)
    assert speech.interrupted("Let me look. We open") == {"a": "Let me look. ", "b": "We open"}
    assert not speech.is_speaking(0.2)


def test_words_before_a_silence_were_heard() -> None:
    speech = AgentSpeech()
    speech.add("a", "One moment. ", 0.0)
    speech.add("a", "It is open.", 60.0)
    assert speech.heard(60.1) == {"a": "One moment."}


def test_words_are_found_however_the_service_writes_them() -> None:
    assert heard_length(TEXT, "We open at nine.") == 16
    assert heard_length(TEXT, "we open at 9") == 16, "as many words"
    assert heard_length(TEXT, "close at") == 28, "of the last sentence alone"
    assert heard_length(TEXT, "") == 0
    assert heard_length("", "anything") == 0
