"""Frames: choosing pictures of a video, decoding them, and the cache of the result."""
