-- grain: one row per (benchmark, evaluation, second_head)
-- Scores are means over whole groups; `incomplete_groups` have none. Accuracy is over questions.
with per_video as (
    select benchmark, evaluation, second_head, video_id,
           count(*) as groups,
           nullif(count(group_score), 0) as scored,
           sum(group_score) as score,
           sum(group_score_official) as score_official,
           sum(linear_score) as linear,
           sum(questions) as responses,
           sum(correct) as correct,
           sum(unreadable) as unreadable,
           sum(failed) as failed
    from v2_groups
    where second_head is not null
    group by all
),
cells as (
    select benchmark, evaluation, second_head,
           coalesce(sum(scored), 0)::bigint as groups,
           (sum(groups) - coalesce(sum(scored), 0))::bigint as incomplete_groups,
           count(scored) as videos,
           sum(score) / sum(scored) as group_score,
           clustered_standard_error(score, scored) as standard_error,
           sum(score_official) / sum(scored) as group_score_official,
           sum(linear) / sum(scored) as linear_score,
           sum(responses)::bigint as responses,
           sum(correct)::bigint as correct,
           sum(unreadable)::bigint as unreadable,
           sum(failed)::bigint as failed
    from per_video
    group by all
)
select benchmark, evaluation, second_head, groups, incomplete_groups, videos,
       group_score, standard_error,
       greatest(group_score - t_975 * standard_error, 0) as group_score_low,
       least(group_score + t_975 * standard_error, 100) as group_score_high,
       group_score_official, linear_score,
       responses, correct, unreadable, failed,
       correct / responses as accuracy
from cells
left join t_quantiles on degrees_of_freedom = videos - 1
