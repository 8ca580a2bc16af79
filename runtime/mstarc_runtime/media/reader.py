"""The process that reads media of strangers: `python -m mstarc_runtime.media.reader FD MEMORY`.

FD is a file without a name that it shares with its parent: there a job's content lies, and there
the samples of a sound come. A job is a line of JSON on stdin, its answer a line on stdout:

    {"kind": "audio", "size": 1044, "most_s": 600, "cpu_s": 20, …}
    {"rate": 16000, "size": 4000, "seconds": 0.0625}    or    {"failure": {"code": "MS9206", …}}

A sound's samples are mixed to one channel and kept; pictures and films are read as their host op
will read them, and counted. Memory and processor time are limited by the system: what breaks the
limits of a file that lies breaks this process alone. It ends when its stdin does.
"""

import io
import json
import mmap
import os
import resource
import sys
from collections.abc import Mapping
from typing import Any

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.containers import container_of, unreadable
from mstarc_runtime.media.limits import too_large
from mstarc_runtime.media.samples import read_samples


def main(arguments: list[str]) -> int:
    """Answers jobs until there are no more."""
    file, memory_bytes = int(arguments[0]), int(arguments[1])
    # What libraries print must not stand among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _load_libraries()
    _limit_memory(memory_bytes)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(file, json.loads(line))), file=answers, flush=True)
    return 0


def _load_libraries() -> None:
    """Before memory is counted, and so that no job waits for them."""
    import PIL.Image
    import soundfile

    assert soundfile
    # Sizes are compared with a limit of our own.
    PIL.Image.MAX_IMAGE_PIXELS = None
    try:
        import av  # only films need it
    except ModuleNotFoundError:
        return
    assert av


def _limit_memory(beyond_bytes: int) -> None:
    if sys.platform != "linux":
        return  # other systems do not count address space
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * mmap.PAGESIZE + beyond_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time(seconds: int) -> None:
    """So many seconds of processor time from now on; then the system ends the process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _answer(file: int, job: Mapping[str, Any]) -> dict[str, Any]:
    _limit_time(job["cpu_s"])
    try:
        content = os.pread(file, job["size"], 0)
        match job["kind"]:
            case "audio":
                return _sound(file, content, job)
            case "image":
                return {"pixels": _picture(content, job["most_pixels"])}
            case _:
                return _film(content, job)
    except RuntimeFailure as failure:
        said = {"code": failure.code, "message": failure.message}
        return {"failure": {**said, "notes": failure.notes, "helps": failure.helps}}
    except MemoryError:
        return {"failure": {"code": "MS9220", "message": "there is not the memory to read it"}}


def _sound(file: int, content: bytes, job: Mapping[str, Any]) -> dict[str, Any]:
    samples, rate, _ = read_samples(io.BytesIO(content), "the sound", job["most_s"])
    data = samples.astype("<f4").tobytes()
    os.ftruncate(file, len(data))
    written = 0
    while written < len(data):
        written += os.pwrite(file, data[written:], written)
    return {"rate": rate, "size": len(data), "seconds": len(samples) / rate}


def _picture(content: bytes, most_pixels: int) -> int:
    """Its pixels. Fails with MS9206 or MS9219."""
    from mstarc_runtime.media.images import opened_image, read_image

    width, height = opened_image(content).size
    if width * height > most_pixels:
        raise _too_many_pixels("the picture", width, height)
    read_image(content)
    return int(width * height)


def _film(content: bytes, job: Mapping[str, Any]) -> dict[str, Any]:
    """Reads all frames, and all sound. Fails with MS9206 or MS9219."""
    import av

    kind = container_of(content)
    frames, last_s = 0, 0.0
    try:
        with av.open(io.BytesIO(content), mode="r", format=kind) as opened:
            for frame in opened.decode(video=0):
                frames += 1
                if frame.width * frame.height > job["most_pixels"]:
                    raise _too_many_pixels("a frame of the film", frame.width, frame.height)
                if frames > job["most_frames"]:
                    many = f"the film has more than {job['most_frames']} frames"
                    raise too_large(many, "--max-film-frames")
                last_s = max(last_s, frame.time or 0.0)
                _check_film_time(last_s, job["most_s"])
        with av.open(io.BytesIO(content), mode="r", format=kind) as opened:
            if opened.streams.audio:
                sound_s = 0.0
                for piece in opened.decode(audio=0):
                    sound_s += piece.samples / max(1, piece.sample_rate)
                    _check_film_time(sound_s, job["most_s"])
    except MemoryError:
        raise
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise unreadable(error) from error
    if not frames:
        raise RuntimeFailure("MS9206", "a video holds no frames")
    return {"frames": frames, "seconds": last_s}


def _check_film_time(seconds: float, most_s: float) -> None:
    if seconds > most_s:
        raise too_large(f"the film lasts more than {most_s:g} s", "--max-film")


def _too_many_pixels(what: str, width: int, height: int) -> RuntimeFailure:
    said = f"{what} has {width} x {height} pixels: more than there may be in a request"
    return too_large(said, "--max-picture-mp")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
