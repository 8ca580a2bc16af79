"""Talks live to a server: a sound file is spoken to it, the answer is written to another one.

    mstarc serve build/voice_chat --placement cpu &
    python examples/talk.py examples/question.wav answer.wav

Needs the packages `openai`, `websockets` and `soundfile`.
"""

import argparse
import base64
import sys
import time
import wave

import soundfile
from openai import OpenAI

PIECE_S = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(description="Talk live to a server.")
    parser.add_argument("question")
    parser.add_argument("answer")
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--key", default="none")
    parser.add_argument(
        "--interrupt", type=float, metavar="SECONDS", help="cancel the answer after so much sound"
    )
    options = parser.parse_args()
    client = OpenAI(base_url=options.url, api_key=options.key)
    model = client.models.list().data[0].id
    with client.realtime.connect(model=model) as connection:
        session = connection.recv().session
        rate = session.audio.output.format.rate
        heard = {"transcription": {"model": model}}
        connection.session.update(session={"type": "realtime", "audio": {"input": heard}})
        for piece in pieces(options.question, session.audio.input.format.rate):
            connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        connection.input_audio_buffer.commit()
        asked_s = time.monotonic()
        connection.response.create()
        sound = bytearray()
        for event in connection:
            match event.type:
                case "conversation.item.input_audio_transcription.completed":
                    print(f"heard: {event.transcript}")
                case "response.output_audio.delta":
                    if not sound:
                        print(f"first sound after {time.monotonic() - asked_s:.2f} s")
                    sound += base64.b64decode(event.delta)
                    if options.interrupt and len(sound) > options.interrupt * rate * 2:
                        connection.response.cancel()
                        options.interrupt = None
                case "response.output_audio_transcript.done":
                    print(f"said: {event.transcript}")
                case "response.done":
                    status = event.response.status
                    print(f"{status} after {time.monotonic() - asked_s:.2f} s", end=", ")
                    print(f"{len(sound) / rate / 2:.2f} s of sound")
                    break
                case "error":
                    print(event.error.message, file=sys.stderr)
                    return 1
    with wave.open(options.answer, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", "not compressed"))
        file.writeframes(bytes(sound))
    return 0


def pieces(path: str, rate: int) -> list[bytes]:
    """A sound file as 16-bit samples at `rate`, in pieces as a microphone gives them."""
    samples, found = soundfile.read(path, dtype="float32", always_2d=True)
    mono = samples.mean(axis=1)
    # Nearest samples: a client that has a resampler uses that.
    chosen = [int(number * found / rate) for number in range(len(mono) * rate // found)]
    content = (mono[chosen].clip(-1, 1) * 32767).astype("<i2").tobytes()
    size = int(PIECE_S * rate) * 2
    return [content[start : start + size] for start in range(0, len(content), size)]


if __name__ == "__main__":
    sys.exit(main())
