"""Models that are programs: they read questions and write answers, one JSON object per line."""
