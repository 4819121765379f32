-- The unweighted mean of the accuracies by the values of one facet (`cell` has its column): one row
-- per (benchmark, evaluation). The error is clustered by video, the interval Student's t within 0-1,
-- or null for a single video or an error of 0, which would claim certainty.
-- Evaluations without any answer have no row. Rounded, since the last digits depend on the order of
-- a sum.
with labelled as (
    select benchmark, evaluation, video_id, is_correct::int as correct, outcome <> 'failed' as answered,
           list_value(*columns(lambda c: list_contains(cell, c))) as value
    from scored_questions
),
weighted as (
    select benchmark, evaluation, video_id, value, correct, answered,
           avg(correct) over same as accuracy,
           count(*) over same as size
    from labelled
    where value[1] is not null
    window same as (partition by benchmark, evaluation, value)
),
per_video as (
    select benchmark, evaluation, video_id,
           count(*) as responses,
           bool_or(answered) as answered,
           sum(accuracy / size) as weighted_accuracy,
           sum((correct - accuracy) / size) as influence
    from weighted
    group by all
),
sizes as (
    select benchmark, evaluation, count(distinct value) as parts from weighted group by all
),
means as (
    select benchmark, evaluation, any_value(parts) as parts,
           count(*) as videos,
           sum(responses)::bigint as responses,
           round(sum(weighted_accuracy) / any_value(parts), 12) as accuracy,
           round(sqrt(sum(influence * influence) * count(*) / nullif(count(*) - 1, 0))
                 / any_value(parts), 12) as standard_error
    from per_video join sizes using (benchmark, evaluation)
    group by benchmark, evaluation
    having bool_or(answered)
)
select means.*,
       case when standard_error >= 1e-9
            then greatest(accuracy - t_975 * standard_error, 0) end as accuracy_low,
       case when standard_error >= 1e-9
            then least(accuracy + t_975 * standard_error, 1) end as accuracy_high
from means
left join t_quantiles on degrees_of_freedom = videos - 1
