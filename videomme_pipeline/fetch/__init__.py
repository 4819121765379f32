"""Fetch: files of a benchmark from the Hugging Face Hub, a mirror or a package registry."""
