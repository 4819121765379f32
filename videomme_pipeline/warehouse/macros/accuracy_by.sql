-- Accuracy by facets: one row per benchmark, evaluation and value of the columns in `cell`
-- Without any answer, there is no accuracy. If some questions failed, the accuracy is a lower bound.
with per_video as (
    select columns(lambda c: c in ('benchmark', 'evaluation', 'video_id') or list_contains(cell, c)),
           count(*)::int as responses,
           count(*) filter (repeat = 0)::int as questions,
           count(*) filter (outcome = 'correct') as correct,
           count(*) filter (outcome = 'unreadable') as unreadable,
           count(*) filter (outcome = 'failed') as failed
    from scored_questions
    where columns(lambda c: c = 'benchmark' or list_contains(cell, c)) is not null
    group by all
),
cells as (
    select columns(lambda c: c in ('benchmark', 'evaluation') or list_contains(cell, c)),
           sum(questions)::bigint as questions,
           count(*) as videos,
           sum(responses)::bigint as responses,
           sum(correct)::bigint as correct,
           (sum(responses) - sum(correct) - sum(unreadable) - sum(failed))::bigint as incorrect,
           sum(unreadable)::bigint as unreadable,
           sum(failed)::bigint as failed,
           sum(correct) / nullif(sum(responses), sum(failed)) as accuracy,
           clustered_standard_error(correct, responses) as standard_error
    from per_video
    group by all
)
select cells.* exclude (accuracy, standard_error),
       accuracy,
       correct / nullif(correct + incorrect, 0) as accuracy_of_answered,
       case when accuracy is not null then standard_error end as standard_error,
       interval_low(accuracy * questions, questions, videos, standard_error, t_975) as accuracy_low,
       interval_high(accuracy * questions, questions, videos, standard_error, t_975) as accuracy_high,
       case when accuracy is not null then interval_kind(videos, standard_error) end as interval_kind
from cells
left join t_quantiles on degrees_of_freedom = videos - 1
