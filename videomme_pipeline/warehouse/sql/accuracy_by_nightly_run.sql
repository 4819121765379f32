-- grain: one row per (benchmark, evaluation, observation)
-- Without any answer, there is no accuracy. If some questions failed, the accuracy is a lower bound.
with per_video as (
    select benchmark, evaluation, observation, video_id,
           count(distinct question_id) as questions,
           count(*) as responses,
           count(*) filter (outcome = 'correct') as correct,
           count(*) filter (outcome = 'unreadable') as unreadable,
           count(*) filter (outcome = 'failed') as failed
    from nightly_runs
    group by all
),
cells as (
    select benchmark, evaluation, observation,
           sum(questions)::bigint as questions,
           count(*) as videos,
           sum(responses)::bigint as responses,
           sum(correct)::bigint as correct,
           sum(unreadable)::bigint as unreadable,
           sum(failed)::bigint as failed,
           sum(correct) / nullif(sum(responses), sum(failed)) as accuracy,
           clustered_standard_error(correct, responses) as standard_error
    from per_video
    group by all
)
select benchmark, evaluation, observation, questions, videos, responses, correct, unreadable, failed,
       accuracy,
       case when accuracy is not null then standard_error end as standard_error,
       interval_low(accuracy * questions, questions, videos, standard_error, t_975) as accuracy_low,
       interval_high(accuracy * questions, questions, videos, standard_error, t_975) as accuracy_high,
       case when accuracy is not null then interval_kind(videos, standard_error) end as interval_kind
from cells
left join t_quantiles on degrees_of_freedom = videos - 1
