"""What the command line prints: tables and lines, from values that were computed elsewhere."""
