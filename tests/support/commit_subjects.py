"""Subjects of commits: `area: imperative summary`, at most 72 characters.

    python -m tests.support.commit_subjects [FILE]

checks the message in FILE (as the hook `commit-msg`), or every commit since `FIRST_CHECKED`. It
prints each wrong subject and exits with 1 if there is one. Merges are not checked, and without a
history there is nothing to check.
"""

import re
import subprocess
import sys
from pathlib import Path

MAX_CHARACTERS = 72
FIRST_CHECKED = "2026-11-27T03:00:00Z"
"""Earlier commits are from before this check, or from branches without it."""
_SHAPE = re.compile(r"[a-z0-9][\w ./-]*: (?P<first>\S+)(?: .*)?(?<!\.)")
_NO_VERB = re.compile(r"an?|the|all|each|every|new|no|one|some|[a-z]+(?:[^su]s|[^e]ed|[a-z]{2}ing)")
"""First words that begin a statement or a title instead of an order."""


def problem(subject: str) -> str | None:
    """The fault of a subject, or None."""
    if len(subject) > MAX_CHARACTERS:
        return f"{len(subject)} characters, at most {MAX_CHARACTERS} fit"
    shape = _SHAPE.fullmatch(subject)
    if shape is None:
        return "write `area: imperative summary`, without a period at the end"
    if _NO_VERB.fullmatch(shape["first"]):
        return f"`{shape['first']}` is no imperative; begin with a verb such as `fix` or `add`"
    return None


def subjects() -> list[str]:
    """The subjects of all commits since `FIRST_CHECKED`, without merges."""
    git = ["git", "-C", str(Path(__file__).parent), "log", "--no-merges", "--format=%s"]
    command = [*git, f"--since={FIRST_CHECKED}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.splitlines()


if __name__ == "__main__":
    if sys.argv[1:]:
        first = Path(sys.argv[1]).read_text(encoding="utf-8").partition("\n")[0]
        checked = [] if first.startswith("Merge ") else [first]
    else:
        checked = subjects()
    wrong = {subject: reason for subject in checked if (reason := problem(subject))}
    sys.stdout.write("".join(f"{subject}\n  {reason}\n" for subject, reason in wrong.items()))
    sys.exit(bool(wrong))
