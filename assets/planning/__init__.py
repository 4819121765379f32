"""What a refresh would build, why, and what it would cost."""
