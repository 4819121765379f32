"""Models that answer questions about videos, all with the protocol `VideoLLM`."""
