-- Group score by facets: one row per benchmark, evaluation and value of the columns in `cell`
-- Scores are means over complete groups; incomplete groups have no score. A group that was asked several
-- times is one group. Accuracy is over questions.
-- Without any answer, there is neither. Rounded, since the last digits depend on the order of a sum.
-- Intervals are Student's t with the clustered error, cut to 0-100 (`clustered_t`). An interval is null
-- for a single video and if all videos have the same score. `with_group_score_interval` in
-- scoring/statistics/estimates.py computes the same.
with per_video as (
    select columns(lambda c: c in ('benchmark', 'evaluation', 'video_id') or list_contains(cell, c)),
           count(*) as groups,
           nullif(count(group_score), 0) as scored,
           count(group_score) filter (failed < questions) as answered,
           sum(group_score) as score,
           sum(group_score_official) as score_official,
           sum(linear_score) as linear,
           sum(questions) as responses,
           sum(correct) as correct,
           sum(unreadable) as unreadable,
           sum(failed) as failed
    from group_scores
    where columns(lambda c: c = 'benchmark' or list_contains(cell, c)) is not null
    group by all
),
cells as (
    select columns(lambda c: c in ('benchmark', 'evaluation') or list_contains(cell, c)),
           count(scored) as groups,
           count(*) filter (groups > coalesce(scored, 0)) as incomplete_groups,
           count(scored) as videos,
           round(sum(score) / case when sum(answered) > 0 then sum(scored) end, 10) as group_score,
           case when sum(answered) > 0 then round(clustered_standard_error(score, scored), 10) end
               as standard_error,
           round(sum(score_official) / case when sum(answered) > 0 then sum(scored) end, 10)
               as group_score_official,
           round(sum(linear) / case when sum(answered) > 0 then sum(scored) end, 10) as linear_score,
           sum(responses)::bigint as responses,
           sum(correct)::bigint as correct,
           sum(unreadable)::bigint as unreadable,
           sum(failed)::bigint as failed
    from per_video
    group by all
)
select cells.*,
       case when standard_error >= 1e-6
            then greatest(group_score - t_975 * standard_error, 0) end as group_score_low,
       case when standard_error >= 1e-6
            then least(group_score + t_975 * standard_error, 100) end as group_score_high,
       case when standard_error >= 1e-6 then 'clustered_t' end as interval_kind,
       correct / nullif(responses, failed) as accuracy
from cells
left join t_quantiles on degrees_of_freedom = videos - 1
