"""The mean over the values of a facet, to compare the view of a headline metric with."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

from videomme_pipeline.benchmarks.facets import Facet, FacetValue
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.estimates import Estimate, clustered_mean


def mean_over(rows: Iterable[ScoredQuestion], facet: Facet) -> Estimate:
    """The unweighted mean of the accuracies by the values of `facet`, clustered by video.

    The standard error is that of the linearized estimator: each response counts by its difference
    to the accuracy of its value, divided by the number of responses with that value.

    Raises:
        ValueError: if no row has a value.
    """
    labelled = [(row.facets[facet.column], row) for row in rows if facet.column in row.facets]
    right: dict[FacetValue, list[bool]] = defaultdict(list)
    for value, row in labelled:
        right[value].append(row.is_correct)
    accuracies = {value: fmean(answers) for value, answers in right.items()}
    mean = fmean(accuracies.values()) if accuracies else 0.0
    scale = len(labelled) / max(len(right), 1)
    return clustered_mean(
        [
            mean + scale * (row.is_correct - accuracies[value]) / len(right[value])
            for value, row in labelled
        ],
        [row.video_id for _, row in labelled],
    )
