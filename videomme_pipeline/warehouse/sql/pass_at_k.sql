-- grain: one row per (benchmark, evaluation with repeats, k)
-- pass@k is the probability that at least one of k different repeats of a question is correct, as an
-- unbiased estimate: 1 - C(n - c, k) / C(n, k) with c correct ones among n repeats (Chen et al.,
-- "Evaluating Large Language Models Trained on Code", 2021). Unreadable and failed responses are not
-- correct. `questions` of `all_questions` were asked at least k times; the others are left out. pass@1
-- weights every question equally, so it is the accuracy only if all were asked equally often. Evaluations
-- without any answer have no row.
with per_question as (
    select benchmark, evaluation, video_id, question_id,
           count(*) as repeats,
           count(*) filter (outcome = 'correct') as correct
    from scored_questions
    group by all
    having count(*) > 1
),
sizes as (
    select benchmark, evaluation, count(distinct question_id) as all_questions
    from scored_questions
    group by all
    having count(*) filter (outcome <> 'failed') > 0
),
drawn as (
    select *, unnest(range(1, repeats + 1)) as k from per_question
),
per_draw as (
    select *, unnest(range(0, k)) as draw from drawn
),
passed as (
    select benchmark, evaluation, video_id, question_id, k,
           1 - product(greatest(repeats - correct - draw, 0) / (repeats - draw)) as passed
    from per_draw
    group by all
),
per_video as (
    select benchmark, evaluation, video_id, k, count(*) as questions, sum(passed) as passed
    from passed
    group by all
),
estimates as (
    select benchmark, evaluation, k,
           sum(questions)::bigint as questions,
           count(*) as videos,
           sum(passed) as passed,
           clustered_standard_error(passed, questions) as standard_error
    from per_video
    group by all
)
select estimates.* exclude (passed, standard_error),
       all_questions,
       passed / questions as pass_at_k,
       standard_error,
       interval_low(passed, questions, videos, standard_error, t_975) as pass_at_k_low,
       interval_high(passed, questions, videos, standard_error, t_975) as pass_at_k_high,
       interval_kind(videos, standard_error) as interval_kind
from estimates
join sizes using (benchmark, evaluation)
left join t_quantiles on degrees_of_freedom = videos - 1
