"""The phone simulator against a service made by hand, on a clock twenty times as fast."""

import asyncio
import io
import shutil
import warnings
import wave
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from graphrag.simulator import mu_law
from graphrag.simulator.fast_loop import run_fast
from graphrag.simulator.mu_law import SILENCE
from graphrag.simulator.phone_simulator import PhoneSimulator
from graphrag.simulator.speech import (
    Speech,
    UnreadableWav,
    from_wav,
    packaged_clips,
    tones,
    without_pauses,
)
from graphrag.simulator.twilio_line import LineRefused, StreamPlace, signature_of
from tests.graphrag.simulator.stream_server import StreamServer, stream_server
from tests.support.call_clips import packaged_scripts
from tests.support.faulty_phone import FaultyPhone, LineFaults, WatchedPhone
from tests.support.recorded_calls import loudness
from tests.support.waiting import until

SPEED = 20.0
BUSY_S = 0.5
"""So late, on the clock of the call, a busy machine may be."""
ANSWER = tones("An answer of about one second.")


def fast(test: Callable[[StreamServer], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def served() -> None:
        async with stream_server() as service, asyncio.timeout(60):
            await test(service)

    def run() -> None:
        run_fast(served(), SPEED)

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


@fast
async def test_a_stream_opens_and_ends_as_twilio_s(service: StreamServer) -> None:
    """Also: numbers are texts that count on, silence flows between words, words arrive as
    they were said.
    """
    words = tones("Hello?")
    async with PhoneSimulator(service.place()) as phone:
        await asyncio.sleep(0.3)
        await phone.say(words)
        phone.press("1#")
        await asyncio.sleep(0.3)
    await service.over.wait()
    first, second = service.received[:2]
    assert first["event"] == "connected"
    assert first["protocol"] == "Call"
    assert "sequenceNumber" not in first
    assert second["event"] == "start"
    assert second["sequenceNumber"] == "1"
    assert second["start"]["customParameters"] == {"token": "T"}
    assert second["start"]["callSid"] == "CA1"
    assert second["start"]["mediaFormat"] == {
        "encoding": "audio/x-mulaw",
        "sampleRate": 8000,
        "channels": 1,
    }
    numbers = [message["sequenceNumber"] for message in service.received[1:]]
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    assert [m["media"]["chunk"] for m in service.of("media")[:3]] == ["1", "2", "3"]
    assert [m["media"]["timestamp"] for m in service.of("media")[:3]] == ["155", "175", "195"]
    assert [m["dtmf"]["digit"] for m in service.of("dtmf")] == ["1", "#"]
    assert service.received[-1]["event"] == "stop"
    assert service.received[-1]["stop"]["callSid"] == "CA1"
    assert words in service.sound
    assert set(service.sound.replace(words, b"")) == {SILENCE}
    assert service.sound == bytes(phone.spoken)
    assert service.headers["X-Twilio-Signature"] == signature_of(service.url, {}, "key")


@fast
async def test_sound_is_played_on_a_clock_and_marks_return_when_it_was(
    service: StreamServer,
) -> None:
    """Also: sound goes out every 20 ms, whatever comes in, and one second of it lasts a second."""
    async with PhoneSimulator(service.place()) as phone:
        await service.started.wait()
        began = asyncio.get_running_loop().time()
        half = len(ANSWER) // 320 * 160
        await service.play(ANSWER[:half], "0.1")
        await service.play(ANSWER[half:], "0.2")
        await until(lambda: len(service.of("mark")) == 2)
        first, second = (message["came"] - began for message in service.of("mark"))
        assert half / 8000 - 0.02 <= first < half / 8000 + BUSY_S
        assert len(ANSWER) / 8000 - 0.02 <= second < len(ANSWER) / 8000 + BUSY_S
        assert [message["mark"]["name"] for message in service.of("mark")] == ["0.1", "0.2"]
        assert ANSWER in phone.heard
        assert phone.answers == 1
        await until(lambda: phone.quiet_s > 0.2)
        began = asyncio.get_running_loop().time()
        sent = len(service.of("media"))
        await asyncio.sleep(1.0)
        passed = asyncio.get_running_loop().time() - began
        assert (len(service.of("media")) - sent) * 0.02 == pytest.approx(passed, abs=BUSY_S)


@fast
async def test_clear_silences_and_returns_every_mark_at_once(service: StreamServer) -> None:
    async with WatchedPhone(service.place()) as phone:
        await service.started.wait()
        for number in range(5):
            await service.play(ANSWER, f"0.{number}")
        await until(lambda: phone.playing_s > 0.5)
        await service.send("clear")
        await until(lambda: len(service.of("mark")) == 5, within_s=BUSY_S)
        await asyncio.sleep(0.5)
        assert not phone.is_playing
        cleared = phone.clears[0]
        assert 500 <= cleared.heard_ms < 500 + BUSY_S * 1000
        assert cleared.heard_ms + cleared.dropped_ms == pytest.approx(5 * len(ANSWER) / 8, abs=1)
        heard = bytes(phone.heard).strip(bytes([SILENCE]))
        assert ANSWER.startswith(heard[: len(ANSWER)])
        assert len(heard) // 8 == pytest.approx(cleared.heard_ms, abs=20)


@fast
async def test_the_line_takes_its_time_each_way_and_keeps_the_order(service: StreamServer) -> None:
    async with FaultyPhone(service.place(), LineFaults(each_way_s=0.1, jitter_s=0.02)) as phone:
        await service.started.wait()
        began = asyncio.get_running_loop().time()
        await service.play(ANSWER, "0.1")
        await until(lambda: service.of("mark"))
        round_trip = service.of("mark")[0]["came"] - began - len(ANSWER) / 8000
        assert 0.14 < round_trip < 0.24 + BUSY_S
        assert phone.heard.find(ANSWER[:160]) > 0
    numbers = [int(message["sequenceNumber"]) for message in service.received[1:]]
    assert numbers == sorted(numbers)


@fast
async def test_faults_happen_on_demand(service: StreamServer) -> None:
    """Also: frames are lost and doubled as often as asked, `clear` is ignored, the caller is
    gone in time.
    """
    faults = LineFaults(
        loses=0.2,
        doubles=0.2,
        delays=0.05,
        delayed_by_s=0.1,
        ignores_clear=True,
        hangs_up_at_s=3,
        seed=7,
    )
    async with FaultyPhone(service.place(), faults) as phone:
        await service.started.wait()
        await service.play(ANSWER, "0.1")
        await until(lambda: phone.is_playing)
        await service.send("clear")
        await phone.ended.wait()
        assert phone.at_s == pytest.approx(3, abs=0.1)
        await phone.say(ANSWER)  # nobody listens, and nobody waits
    await service.over.wait()
    assert ANSWER in phone.heard
    assert not phone.clears
    assert service.received[-1]["event"] == "stop"
    numbers = [int(message["sequenceNumber"]) for message in service.received[1:]]
    lost = numbers[-1] - len(set(numbers))
    doubled = len(numbers) - len(set(numbers))
    assert 15 < lost < 50
    assert 10 < doubled < 50


@fast
async def test_a_line_breaks_without_a_word(service: StreamServer) -> None:
    async with FaultyPhone(service.place(), LineFaults(breaks_at_s=0.5)) as phone:
        await asyncio.gather(phone.say(ANSWER), phone.ended.wait())
    await service.over.wait()
    assert not service.of("stop")


@fast
async def test_what_twilio_would_not_take_is_noted(service: StreamServer) -> None:
    async with WatchedPhone(service.place()) as phone:
        await service.started.wait()
        await service.send("pong")
        await service.send("media", media={"payload": "no base64!"})
        await service.send("media", streamSid="MZother", media={"payload": ""})
        await until(lambda: len(phone.strange) == 3)
        await service.close()
        await phone.ended.wait()
    assert phone.close_code == 1000


async def test_a_place_where_nobody_is_refuses() -> None:
    nowhere = StreamPlace(url="ws://127.0.0.1:9/voice/stream", token="T", call_sid="CA1")
    with pytest.raises(LineRefused, match=r"127\.0\.0\.1:9"):
        async with PhoneSimulator(nowhere):
            raise AssertionError


def test_signatures_are_the_vendor_s() -> None:
    oracle = pytest.importorskip("twilio.request_validator").RequestValidator("secret")
    form = {"To": "+331", "CallSid": "CA1", "From": "é &=+", "Empty": ""}
    for url in (
        "https://a.example/voice/default/help",
        "http://127.0.0.1:80/voice/after/x?workspace=a%20b",
    ):
        assert oracle.validate(url, form, signature_of(url, form, "secret"))


MAX_CLIPS = 400_000
EVERY_SAMPLE = np.arange(-(1 << 15), 1 << 15, dtype=np.int16)


def encoded_one_by_one(sample: int) -> int:
    """The reference: the segments of G.711 searched in order."""
    magnitude = sample >> 2
    mask = 0xFF if magnitude >= 0 else 0x7F
    magnitude = min(abs(magnitude), 8159) + 33
    ends = [0x3F, 0x7F, 0xFF, 0x1FF, 0x3FF, 0x7FF, 0xFFF, 0x1FFF]
    segment = next((place for place, end in enumerate(ends) if magnitude <= end), None)
    code = 0x7F if segment is None else (segment << 4) | ((magnitude >> (segment + 1)) & 0xF)
    return code ^ mask


def a_wav(samples: np.ndarray, rate: int, channels: int = 1, width: int = 2) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return made.getvalue()


def test_tables_equal_the_reference_for_every_sample() -> None:
    assert mu_law.encode(EVERY_SAMPLE) == bytes(
        encoded_one_by_one(int(one)) for one in EVERY_SAMPLE
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audioop = pytest.importorskip("audioop", reason="gone from Python 3.13")
    assert mu_law.encode(EVERY_SAMPLE) == audioop.lin2ulaw(EVERY_SAMPLE.tobytes(), 2)
    every_byte = bytes(range(256))
    assert mu_law.decode(every_byte).tobytes() == audioop.ulaw2lin(every_byte, 2)


def test_silence_is_silent_and_tones_are_not() -> None:
    assert loudness(bytes([mu_law.SILENCE]) * 160) == 0
    said = tones("Good morning, this is a test.")
    assert 8000 < len(said) < 24_000
    assert min(loudness(said[at : at + 160]) for at in range(0, len(said) - 160, 160)) > 1000


async def test_words_come_from_the_program_else_from_clips_else_from_tones() -> None:
    clip = tones("clip")
    bare = Speech(None, {"Known words.": clip})
    assert await bare.say("Known words.") == clip
    assert await bare.say("Unknown words.") == tones("Unknown words.")
    broken = Speech("/nowhere/espeak-ng", {})
    assert await broken.say("Still heard.") == tones("Still heard.")


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
async def test_the_program_speaks_two_languages_without_long_pauses() -> None:
    speech = Speech(shutil.which("espeak-ng"), {})
    english = await speech.say("Hello. How are you? -v fr", "en")
    assert english != await speech.say("Hello. How are you? -v fr", "fr")
    silent = [loudness(english[at : at + 160]) < 100 for at in range(0, len(english), 160)]
    assert not any(all(silent[at : at + 20]) for at in range(len(silent) - 20))


@pytest.mark.slow
def test_a_wav_of_any_rate_keeps_its_length_and_pitch() -> None:
    for rate, channels in ((8000, 1), (44_100, 2), (24_000, 1)):
        wanted = 10_000 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
        sound = from_wav(a_wav(np.repeat(wanted, channels), rate, channels))
        assert len(sound) == 8000
        assert np.argmax(np.abs(np.fft.rfft(mu_law.decode(sound)))) == 440
    for broken in (b"", b"RIFF", a_wav(np.zeros(0), 8000), b"\0" * 100):
        with pytest.raises(UnreadableWav):
            from_wav(broken)


def test_pauses_are_shortened_and_ends_cut() -> None:
    loud = np.full(1600, 5000, np.int16)
    quiet = np.zeros(8000, np.int16)
    assert len(without_pauses(np.concatenate([quiet, loud, quiet, loud, quiet]))) == 2 * 1600 + 1600


def test_every_line_of_the_delivered_scripts_has_a_small_clip() -> None:
    clips = packaged_clips()
    assert set(clips) == {line for script in packaged_scripts() for line in script.lines}
    assert sum(map(len, clips.values())) <= MAX_CLIPS
    assert all(loudness(sound) > 300 for sound in clips.values())
