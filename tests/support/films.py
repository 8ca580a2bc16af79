"""Films without loss, for tests."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from mstarc_runtime.plan_api import Media


def film_of(images: Sequence[Any]) -> Media:
    """A film of images of one size."""
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as out:
        stream: Any = out.add_stream("ffv1", rate=8)
        stream.width, stream.height = images[0].size
        stream.pix_fmt = "bgr0"
        for image in images:
            frame = av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return Media(kind="video", content=buffer.getvalue())
