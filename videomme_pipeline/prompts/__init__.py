"""Prompts: the exact text that stands beside the frames, from named templates."""
