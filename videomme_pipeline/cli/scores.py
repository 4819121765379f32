"""Stored scores of an evaluation by its name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from upath import UPath

    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.store import Store


def stored_scores(store: "Store", evaluation: str) -> "tuple[str, Sequence[ScoredQuestion]]":
    """Benchmark and scored questions of `evaluation`."""
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.store import read_rows

    path = scores_file(store, evaluation)
    return path.parent.parent.name, read_rows(path, ScoredQuestion)


def scores_file(store: "Store", evaluation: str) -> "UPath":
    """The stored scores of `evaluation`.

    Raises:
        ConfigurationError: if it has none.
    """
    from videomme_pipeline.configuration import nearest

    files = {path.stem: path for path in store.score_files()}
    if evaluation not in files:
        hint = nearest(evaluation, list(files)) if files else "nothing has been scored yet"
        raise ConfigurationError(
            f"evaluation {evaluation} has no scores: {hint} (videomme run {evaluation})"
        )
    return files[evaluation]
