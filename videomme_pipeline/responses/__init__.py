"""Responses: every question of an evaluation asked once, kept the moment the answer arrives."""
