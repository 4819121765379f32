"""Nightly runs: one scheduled re-evaluation compared with its baseline and its history."""
