"""Subtitles: cues from files, aligned to the frames that are really sent."""
