"""All checks of runs. A check is a function, and its name is the stable id of its findings."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from videomme_pipeline.errors import Finding
from videomme_pipeline.scoring.findings import citation_checks, run_checks
from videomme_pipeline.scoring.findings.run import Run, Runs

Check = Callable[[Run, Runs], Iterator[Finding] | Finding | None]

FILE_CHECKS: Sequence[Check] = (
    run_checks.duplicated_ids,
    run_checks.missing_questions,
    run_checks.left_out,
    run_checks.differences,
    run_checks.sameness,
    run_checks.letters,
)
"""The checks of results files."""
CITATION_CHECKS: Sequence[Check] = (
    citation_checks.answers,
    citation_checks.release,
    citation_checks.conversation,
    citation_checks.frames,
    citation_checks.prompt_tokens,
    citation_checks.pruned_videos,
    citation_checks.warnings,
    citation_checks.finish_reasons,
    citation_checks.subtitles,
    run_checks.letters,
    citation_checks.media,
    run_checks.sameness,
)
"""The checks of evaluations: a score must not be cited if one of its findings is an error."""
TEXT_CHECKS: Sequence[Check] = (
    run_checks.stored_failures,
    run_checks.guessed_letters,
    run_checks.reader_dependence,
    run_checks.implausible_accuracy,
    run_checks.misplaced_answers,
    run_checks.contradictory_options,
    run_checks.refusals,
    run_checks.truncation,
    run_checks.published_cell,
    run_checks.same_as_blind,
)
"""The checks that read the texts of answers, or compare scores."""


def audit(runs: Runs) -> Iterator[Finding]:
    """Yield the findings of every check that applies, run by run.

    The first one of several runs with the same answers names the others.
    """
    named: set[str] = set()
    for run in runs.runs:
        of_kind = CITATION_CHECKS if run.is_evaluation else FILE_CHECKS
        group = {run.name, *(other.name for other, _ in runs.same[run.name])}
        for finding in findings(run, runs, (*of_kind, *TEXT_CHECKS)):
            if finding.check != run_checks.sameness.__name__ or not group <= named:
                yield finding
        named |= group


def findings(run: Run, runs: Runs, checks: Sequence[Check] = CITATION_CHECKS) -> Iterator[Finding]:
    """Yield the findings of `checks` about one of `runs`."""
    for check in checks:
        result = check(run, runs)
        named = [result] if isinstance(result, Finding) else result or ()
        for finding in named:
            yield replace(finding, check=check.__name__, run=run.name)
