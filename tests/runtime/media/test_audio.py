"""Recordings of every kind, and files that are whole or not there."""

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.audio import WavWriter, read_audio, resample


def _tone(rate: int, seconds: float = 0.5, hertz: float = 440.0) -> NDArray[np.float32]:
    times = np.arange(int(rate * seconds)) / rate
    return (0.5 * np.sin(2 * np.pi * hertz * times)).astype(np.float32)


def _failure(path: Path) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as caught:
        read_audio(path, 16000)
    return caught.value


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
@pytest.mark.parametrize("kind", ["wav", "flac"])
def test_any_rate_is_resampled_and_said(tmp_path: Path, rate: int, kind: str) -> None:
    path = tmp_path / f"tone.{kind}"
    soundfile.write(path, _tone(rate), rate)
    audio, notes = read_audio(path, 16000)
    expected = _tone(16000)
    assert audio.rate == 16000
    assert audio.samples.dtype == np.float32
    assert len(audio.samples) == len(expected)
    inner = slice(400, -400)
    np.testing.assert_allclose(audio.samples[inner], expected[inner], atol=1e-3)
    assert notes == (f"`tone.{kind}`: resampled from {rate} Hz to 16000 Hz",)


def test_channels_are_mixed_and_said(tmp_path: Path) -> None:
    path = tmp_path / "two.wav"
    tone = _tone(16000)
    soundfile.write(path, np.stack([tone, -tone / 2], 1), 16000, subtype="FLOAT")
    audio, notes = read_audio(path, 16000)
    np.testing.assert_allclose(audio.samples, tone / 4, atol=1e-6)
    assert notes == ("`two.wav`: 2 channels were mixed to one",)


def test_silence_is_legal_and_said(tmp_path: Path) -> None:
    path = tmp_path / "quiet.wav"
    soundfile.write(path, np.zeros(1600, np.float32), 16000)
    _, notes = read_audio(path, 16000)
    assert notes == ("`quiet.wav`: the recording is silent",)


def test_what_holds_no_sound_is_refused_each_with_its_code(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("What is the capital of France?")
    soundfile.write(tmp_path / "empty.wav", np.zeros(0, np.float32), 16000)
    broken = np.array([0.0, np.nan, 0.1], np.float32)
    soundfile.write(tmp_path / "nan.wav", broken, 16000, subtype="FLOAT")
    codes = {
        name: _failure(tmp_path / name).code
        for name in ("missing.wav", "", "text.wav", "empty.wav", "nan.wav")
    }
    assert codes == {
        "missing.wav": "MS9201",
        "": "MS9201",
        "text.wav": "MS9202",
        "empty.wav": "MS9203",
        "nan.wav": "MS9205",
    }


def test_resampling_keeps_what_both_rates_can_hold_and_drops_the_rest() -> None:
    low, high = _tone(48000, hertz=1000), _tone(48000, hertz=11000)
    inner = slice(400, -400)
    kept = resample(low, 48000, 16000)[inner]
    dropped = resample(high, 48000, 16000)[inner]
    assert abs(float(np.sqrt(np.mean(kept**2))) - 0.5 / np.sqrt(2)) < 1e-3
    assert float(np.abs(dropped).max()) < 1e-3
    assert resample(low, 48000, 48000) is low


def test_a_growing_file_is_playable_at_every_moment_and_appears_when_whole(
    tmp_path: Path,
) -> None:
    path = tmp_path / "out.wav"
    tone = _tone(24000)
    with WavWriter(path, 24000) as writer:
        for part in np.array_split(tone, 5):
            writer.write(part)
            assert not path.exists()
            sound, rate = soundfile.read(tmp_path / "out.wav.part")
            assert (len(sound), rate) == (writer.sample_count, 24000)
    sound, _ = soundfile.read(path, dtype="float32")
    np.testing.assert_allclose(sound, tone, atol=1e-4)
    assert [p.name for p in tmp_path.iterdir()] == ["out.wav"]


def test_samples_that_are_too_loud_are_clipped(tmp_path: Path) -> None:
    with WavWriter(tmp_path / "loud.wav", 24000) as writer:
        writer.write(np.array([2.0, -2.0, 0.0], np.float32))
    sound, _ = soundfile.read(tmp_path / "loud.wav", dtype="int16")
    assert sound.tolist() == [32767, -32767, 0]


def test_an_interrupted_file_leaves_nothing_and_keeps_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    path.write_bytes(b"older")

    def interrupted() -> None:
        with WavWriter(path, 24000) as writer:
            writer.write(_tone(24000))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"older"
    assert [p.name for p in tmp_path.iterdir()] == ["out.wav"]


def test_a_full_disk_and_a_missing_folder_are_errors_with_codes(tmp_path: Path) -> None:
    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, _: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    writer = WavWriter(tmp_path / "out.wav", 24000).begin()
    writer._file = Full(writer._file)  # type: ignore[assignment]
    with pytest.raises(RuntimeFailure) as caught:
        writer.write(_tone(24000))
    writer.abort()
    assert caught.value.code == "MS9002"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeFailure) as caught:
        WavWriter(tmp_path / "none" / "out.wav", 24000).begin()
    assert caught.value.code == "MS9003"
