"""Models of an OpenAI-compatible endpoint."""
