"""Prompts: the exact text that is sent with the frames, from named templates."""
