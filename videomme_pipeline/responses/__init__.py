"""Responses: ask every question of an evaluation once, and store each answer immediately."""
