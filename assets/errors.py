"""The one error that the graph adds to the library's."""

from videomme_pipeline.errors import VideoMMEError


class NotReadyError(VideoMMEError):
    """A partition cannot be made because an input of it is not there; the message says which."""
