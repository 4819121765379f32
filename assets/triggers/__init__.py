"""Jobs, and everything that starts runs: schedules, sensors, automation and retention."""
