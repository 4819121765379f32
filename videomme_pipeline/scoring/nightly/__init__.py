"""Nightly runs: one scheduled re-evaluation compared with its reference and its history."""
