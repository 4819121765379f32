"""Subtitles: cues read from files and aligned to the frames that are actually sent."""
