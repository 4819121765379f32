"""Words that the project does not use, each with what to write instead.

    python -m tests.support.word_list [PATH...]

prints every place in source, configuration and documentation (or in the given files and folders)
that uses one, and exits with 1 if there is any. CONTRIBUTING explains the words.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = frozenset({".py", ".md", ".yaml", ".sql", ".js", ".html", ".toml"})
IGNORED = (
    "tests/golden/",
    "tests/scoring/readers/test_careful_forms.py",
    "tests/support/word_list.py",
    "tests/test_word_list.py",
)

WORDS = {
    r"h[au]ngs? on": "depends on",
    r"stands? in": "is in",
    r"stands? (?:beside|behind|apart|where|there|alone)": "is",
    r"goes by": "depends on",
    r"whoever": "the caller, the user, …",
    r"anew": "again",
    r"mend(?:s|ed|ing)?": "fix",
    r"for ever": "forever, without end",
    r"at hand": "available",
    r"in one go": "at once",
    r"look(?:s|ed)?[ _]again": "invalidate",
    r"stretch(?:es)?": "span",
    r"behind": "downstream, after, stale",
    r"(?:an?|the|this|one|these|those|which|its) nights?": "nightly run",
    r"licences?": "license",
    r"behaviours?": "behavior",
    r"colours?": "color",
}
"""Regular expressions of whole words, and the replacement."""

ALLOWED = re.compile(
    r"behind (?:an?|the|its|one|another) (?:[\w-]+ )?"
    r"(?:proxy|endpoint|server|firewall|protocol|url|client)"
    r"|align-items: stretch",
    re.IGNORECASE,
)
"""Uses of these words that are plain English."""

DATASET_FILES = (
    "videomme_pipeline/demo/smoke/",
    "tests/demo/test_smoke.py",
    "tests/demo/embedded/test_model.py",
)
DATASET_WORDS = re.compile(r"colours?|It stretches its arms|the night sky", re.IGNORECASE)
"""Texts and fields of the smoke questions. Changing one would change the questions or videos."""

QUOTED = re.compile(r"(?<= )`(?:behind|hangs on|look again|the night|stretch|whoever|anew)`")
"""The glossary quotes the words that it replaces."""

NAMES = frozenset({"held", "told", "anew", "behind", "look_again"})
"""Identifiers that do not name a thing."""

VARIABLES = frozenset({"each", "found", "known", "one", "place", "places", "said", "wanted"})
"""Names of variables and arguments that do not say what they contain. Functions may have them."""

FIRST_WORD = re.compile(r'^\s*"""(What|How|Whether|Who|Of each)\b')
"""First words of docstrings that name nothing."""

_UNWANTED = re.compile(rf"(?<![\w-])(?:{'|'.join(WORDS)})(?![\w-])", re.IGNORECASE)
_REPLACEMENTS = tuple((re.compile(word, re.IGNORECASE), instead) for word, instead in WORDS.items())


def offenders(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Line number and explanation of each unwanted word in the file `name`."""
    names = {*_names(text), *_variables(text)} if name.endswith(".py") else set()
    is_dataset = name.startswith(DATASET_FILES)
    for number, line in enumerate(text.splitlines(), start=1):
        checked = DATASET_WORDS.sub("", line) if is_dataset else line
        for word in _UNWANTED.finditer(ALLOWED.sub("", QUOTED.sub("", checked))):
            yield number, f"{word[0]!r} (say: {_replacement(word[0])})"
        if name.endswith(".py") and (first := FIRST_WORD.match(line)):
            yield number, f"a docstring that starts with {first[1]!r} (name what is returned)"
    for number, identifier in sorted(names):
        yield number, f"the name {identifier!r} (name the thing)"


def _names(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string in NAMES:
            yield token.start[0], token.string


def _variables(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable and argument in `VARIABLES`, but no field."""
    tree = ast.parse(text)
    fields = {
        id(statement.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=variable):
                pass
            case ast.Name(id=variable, ctx=ast.Store()) if id(node) not in fields:
                pass
            case _:
                continue
        if variable in VARIABLES:
            yield node.lineno, variable


def _replacement(unwanted: str) -> str:
    return next(instead for word, instead in _REPLACEMENTS if word.search(unwanted))


def checked_files(root: Path) -> Iterator[str]:
    """Paths of the files of the repository that are checked."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        path = root / name
        if path.suffix in SUFFIXES and path.is_file() and not name.startswith(IGNORED):
            yield name


def main() -> None:
    root, given = Path(__file__).parents[2], sys.argv[1:]
    lines = [
        f"{name}:{number}: {explanation}"
        for name in checked_files(root)
        if not given or name.startswith(tuple(given))
        for number, explanation in offenders(name, (root / name).read_text(encoding="utf-8"))
    ]
    print(*lines, sep="\n", end="\n" if lines else "")  # noqa: T201
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
