"""Subtitles: cues are read from files and aligned to the frames that are sent."""
