"""The stages of the asset graph, one module each."""
