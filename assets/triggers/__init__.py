"""What starts a run: jobs, schedules, sensors, automation and retention."""
