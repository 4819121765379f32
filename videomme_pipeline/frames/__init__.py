"""Frames: which pictures of a video to take, how to decode them, and the cache of the result."""
