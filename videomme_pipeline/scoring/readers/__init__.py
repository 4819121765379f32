"""Answer readers, which read the letter out of a response; `read_answer` selects one by name."""
