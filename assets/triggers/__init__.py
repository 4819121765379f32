"""Jobs, and everything that starts runs: schedules, sensors and automation."""
