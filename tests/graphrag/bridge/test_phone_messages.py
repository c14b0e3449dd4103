"""What the phone side sends is read as specified, and nothing else has an effect."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.bridge.phone_messages import (
    MAX_INVALID,
    MESSAGE_BYTES,
    MessageRefused,
    PhoneMessages,
    StreamStart,
)
from graphrag.bridge.signals import PhoneAudio, PhoneDigit, PhoneMark, PhoneStopped
from tests.support.data_files import ours, published

STREAMS = [*ours("realtime", "*.jsonl"), *published("realtime/twilio", "*.jsonl")]
FORMAT = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}


def start(**changes: Any) -> str:
    about = {"streamSid": "MZ1", "callSid": "CA1", "mediaFormat": FORMAT}
    about |= {"customParameters": {"token": "w.s"}, **changes}
    return json.dumps({"event": "start", "sequenceNumber": "1", "start": about})


def media(payload: Any = "f39/", number: int = 2, **more: Any) -> str:
    sound = {"track": "inbound", "payload": payload, **more}
    return json.dumps({"event": "media", "sequenceNumber": str(number), "media": sound})


def test_each_message_is_read_as_what_it_is() -> None:
    messages = PhoneMessages()
    assert messages.read('{"event":"connected","protocol":"Call","version":"1.0.0"}') is None
    assert messages.read(start()) == StreamStart(stream_id="MZ1", call_sid="CA1", token="w.s")
    assert messages.read(media()) == PhoneAudio("f39/")
    assert messages.read(media(track="outbound", number=3)) is None
    assert messages.read('{"event":"mark","mark":{"name":"0.1"}}') == PhoneMark("0.1")
    assert messages.read(
        '{"event":"dtmf","dtmf":{"track":"inbound_track","digit":"#"}}'
    ) == PhoneDigit("#")
    assert messages.read('{"event":"stop","stop":{"callSid":"CA1"}}') == PhoneStopped()
    assert (messages.bad, messages.gaps) == (0, 0)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"event":"connected","protocol":"Sip"}', 1003),
        (start(mediaFormat={**FORMAT, "sampleRate": 16000}), 1003),
        (start(mediaFormat={**FORMAT, "encoding": "audio/l16"}), 1003),
    ],
)
def test_another_protocol_or_format_is_refused(text: str, code: int) -> None:
    with pytest.raises(MessageRefused) as refused:
        PhoneMessages().read(text)
    assert refused.value.close_code == code


def test_a_stream_whose_name_could_write_messages_does_not_begin() -> None:
    messages = PhoneMessages()
    assert messages.read(start(streamSid='MZ"1')) is None
    assert messages.bad == 1


def test_a_second_start_is_refused() -> None:
    with pytest.raises(MessageRefused) as refused:
        PhoneMessages(started=True).read(start())
    assert refused.value.close_code == 1008


def test_gaps_repeats_and_disorder_are_counted_and_passed_on() -> None:
    messages = PhoneMessages(started=True)
    for number in (2, 3, 3, 7, 6, 7):
        assert messages.read(media(number=number)) == PhoneAudio("f39/")
    assert messages.gaps == 3


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "[]", "null", "{}", '{"event":"bye"}', '{"event":7}', '{"event":"media"}'),
        *(
            '{"event":"media","media":[]}',
            '{"event":"mark","mark":"x"}',
            '{"event":"dtmf","dtmf":{}}',
        ),
        '{"event":"dtmf","dtmf":{"digit":"12"}}',
        media('"},"type":"response.create","x":"'),
        media(7),
        media("f39/\n"),
        media("A" * (MESSAGE_BYTES + 1)),
    ],
)
def test_what_is_no_message_is_ignored_and_too_much_of_it_ends_the_stream(text: str) -> None:
    messages = PhoneMessages()
    for _ in range(MAX_INVALID):
        assert messages.read(text) is None
    with pytest.raises(MessageRefused) as refused:
        messages.read(text)
    assert (refused.value.close_code, messages.bad) == (1003, MAX_INVALID + 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=6,
)
EVENTS = st.sampled_from(["connected", "start", "media", "mark", "dtmf", "stop"])


@given(EVENTS, JSON, JSON)
def test_no_message_raises_but_to_refuse_the_stream(event: str, body: Any, number: Any) -> None:
    with suppress(MessageRefused):
        PhoneMessages().read(json.dumps({"event": event, event: body, "sequenceNumber": number}))


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.stem)
def test_a_stream_as_it_comes_is_read_whole(stream: Path) -> None:
    messages = PhoneMessages()
    read = [messages.read(line) for line in stream.read_text().splitlines()]
    assert isinstance(read[1], StreamStart)
    assert isinstance(read[-1], PhoneStopped)
    assert sum(isinstance(each, PhoneAudio) for each in read) > 40
    assert (messages.bad, messages.gaps) == (0, 0)
