"""Scores of an evaluation by its name, or of a results file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from upath import UPath

    from videomme_pipeline.formats.score_file import ScoreOptions
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.storage.layout import Store


def rows_and_settings(
    name: str, store: "Store | None", options: "ScoreOptions"
) -> "tuple[Sequence[ScoredQuestion], Mapping[str, object]]":
    """The rows of a results file, scored with `options`, or of the evaluation with this name.

    The only known setting of a file is the reader. `store` is None outside of a project.

    Raises:
        ConfigurationError: if there is neither such a file nor such an evaluation.
    """
    if Path(name).is_file():
        from videomme_pipeline.formats.score_file import score_file

        return score_file(Path(name), options).rows, {"reader": options.reader.value}
    from videomme_pipeline.storage.tables import stored_settings

    evaluations = [path.stem for path in store.score_files()] if store else []
    if store is None or name not in evaluations:
        raise ConfigurationError(_not_found(name, evaluations))
    benchmark, rows = stored_scores(store, name)
    return rows, stored_settings(store.scores(benchmark, name))


def _not_found(name: str, evaluations: Sequence[str]) -> str:
    """The error message for a name that is neither a file nor an evaluation with scores."""
    from videomme_pipeline.configuration import nearest

    path = Path(name)
    nearby = path.parent.iterdir() if path.suffix and path.parent.is_dir() else ()
    files = [str(file) for file in nearby if file.suffix == path.suffix and file.is_file()]
    known = [*evaluations, *files]
    return (
        f"no file and no scored evaluation `{name}`: "
        f"{nearest(name, known) if known else 'nothing has been scored yet'} "
        "(`videomme run EVALUATION` builds the scores of an evaluation)"
    )


def stored_scores(store: "Store", evaluation: str) -> "tuple[str, Sequence[ScoredQuestion]]":
    """Benchmark and scored questions of `evaluation`."""
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.storage.tables import read_rows

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
