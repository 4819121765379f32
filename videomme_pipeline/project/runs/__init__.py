"""Parts of every run: settings, locks, progress and spending."""
