"""Answers to the questions of an evaluation: inputs, requests, scores and costs."""
