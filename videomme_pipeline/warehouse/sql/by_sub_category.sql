-- grain: one row per (benchmark, evaluation, sub_category)
with per_video as (
    select benchmark, evaluation, sub_category, video_id,
           count(*) as responses,
           count(*) filter (sample = 0) as questions,
           count(*) filter (outcome = 'correct') as correct,
           count(*) filter (outcome = 'incorrect') as incorrect,
           count(*) filter (outcome = 'unreadable') as unreadable,
           count(*) filter (outcome = 'failed') as failed
    from scored_questions
    where sub_category is not null
    group by all
),
cells as (
    select benchmark, evaluation, sub_category,
           sum(questions)::bigint as questions,
           count(*) as videos,
           sum(responses)::bigint as responses,
           sum(correct)::bigint as correct,
           sum(incorrect)::bigint as incorrect,
           sum(unreadable)::bigint as unreadable,
           sum(failed)::bigint as failed,
           clustered_standard_error(correct, responses) as standard_error
    from per_video
    group by all
)
select benchmark, evaluation, sub_category, questions, videos, responses,
       correct, incorrect, unreadable, failed,
       correct / responses as accuracy,
       correct / nullif(correct + incorrect, 0) as accuracy_of_answered,
       standard_error,
       interval_low(correct, responses, videos, standard_error, t_975) as accuracy_low,
       interval_high(correct, responses, videos, standard_error, t_975) as accuracy_high,
       interval_kind(videos, standard_error) as interval_kind
from cells
left join t_quantiles on degrees_of_freedom = videos - 1
