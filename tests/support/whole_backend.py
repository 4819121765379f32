"""A decoder backend as another package would write it: it decodes the whole video in order."""

from collections.abc import Iterator, Sequence

import av

from videomme_pipeline.benchmarks.locate import VideoFile
from videomme_pipeline.frames.backends import Backend, DecodedFrame
from videomme_pipeline.videos.packets import PacketIndex


class WholeBackend(Backend):
    """Decode every frame, and keep the chosen ones."""

    package = "av"

    def decode(
        self, path: VideoFile, index: PacketIndex, frames: Sequence[int]
    ) -> Iterator[DecodedFrame]:
        with av.open(str(path)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number - index.frames_before in frames:
                    yield DecodedFrame(number=number - index.frames_before, frame=frame, rotation=0)
