"""The evaluations of recorded checkpoints: the settings of a template with other weights."""

from collections.abc import Iterable
from dataclasses import replace

from videomme_pipeline.configuration import MAX_NAME_CHARACTERS, is_name
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.evaluation.folder import Configuration
from videomme_pipeline.scoring.checkpoint import Checkpoint, CheckpointOutcome


def with_checkpoints(configuration: Configuration, rows: Iterable[Checkpoint]) -> Configuration:
    """`configuration` with one evaluation per recorded checkpoint and template.

    A checkpoint that was deleted before it was evaluated has none. A template with a mistake is a
    problem of the evaluations of its checkpoints.
    """
    evaluations, problems = dict(configuration.evaluations), dict(configuration.problems)
    recorded = [row for row in rows if row.outcome is not CheckpointOutcome.DELETED]
    for row in recorded:
        try:
            template = configuration.evaluation(row.template)
            evaluations[row.evaluation] = checkpoint_evaluation(
                template, row.run, row.step, row.folder
            )
        except ConfigurationError as error:
            problems[row.evaluation] = error
    return replace(
        configuration,
        evaluations=dict(sorted(evaluations.items())),
        problems=problems,
        checkpoints=frozenset(row.evaluation for row in recorded),
    )


def checkpoint_evaluation(template: Evaluation, run: str, step: int, folder: str) -> Evaluation:
    """The evaluation of the checkpoint in `folder`. Raises ConfigurationError without weights."""
    name = f"{template.name}-{run}-{step}"
    model = template.model.with_weights(f"{template.model.name}-{run}-{step}", folder)
    if model is None:
        raise ConfigurationError(
            f"evaluation {template.name} cannot be the template of checkpoints: its model "
            f"{template.model.name} has no `serve: weights`; choose a model whose servers are "
            "started by runs"
        )
    for text in (name, model.name):
        if not is_name(text):
            raise ConfigurationError(
                f"training run {run}: `{text}` cannot be a name; use letters, digits, `.`, `_`, "
                f"`-` and at most {MAX_NAME_CHARACTERS} characters in the names of the run, the "
                "template and its model"
            )
    return replace(template, name=name, model=model)
