"""Terminal output: tables and lines of values that other modules computed."""
