-- grain: one row per (benchmark, evaluation)
-- `group_score` is null without groups. `complete` is true if every question of the benchmark was asked.
-- Do not cite a score whose `citation` is blocked. `judge_letters` counts the letters
-- that a judge read because `careful` could not. These letters count in `accuracy`, but not in
-- `accuracy_without_judge`. `cost_dollars` does not include the cost of the judge. `servers` are the
-- reports of the servers that answered, as JSON. A value that no server reports is unknown.
with usage as (
    select benchmark, evaluation,
           any_value(evaluation_fingerprint) as fingerprint,
           any_value(model) as model,
           any_value(sampling) as sampling,
           any_value(track) as track,
           any_value(reader) as reader,
           max(repeat) + 1 as repeats,
           avg(num_frames) as frames,
           sum(prompt_tokens)::bigint as prompt_tokens,
           sum(completion_tokens)::bigint as completion_tokens,
           sum(cached_tokens)::bigint as cached_tokens,
           sum(reasoning_tokens)::bigint as reasoning_tokens,
           sum(cost_dollars) as cost_dollars,
           quantile_cont(latency_seconds, 0.5) filter (outcome <> 'failed') as latency_p50_seconds,
           quantile_cont(latency_seconds, 0.95) filter (outcome <> 'failed') as latency_p95_seconds,
           max(answered_at) as answered_at,
           list(distinct server order by server) filter (server is not null) as servers,
           any_value(judge) as judge,
           count(*) filter (rule = 'judge') as judge_letters,
           count(judge_error) as judge_failed,
           sum(judge_cost_dollars) as judge_cost_dollars,
           avg((is_correct and rule <> 'judge')::int) as accuracy_without_judge
    from scored_questions
    group by all
),
sizes as (
    select benchmark,
           greatest(count(*), coalesce(any_value(declared_questions), 0)) as benchmark_questions
    from questions left join benchmarks using (benchmark)
    group by all
)
select benchmark, evaluation, model, sampling, track, reader,
       overall.questions, benchmark_questions,
       overall.questions = benchmark_questions as complete,
       citation, citation_checks,
       overall.videos, overall.responses, repeats,
       overall.correct, overall.incorrect, overall.unreadable, overall.failed,
       overall.accuracy, overall.accuracy_of_answered, overall.standard_error,
       overall.accuracy_low, overall.accuracy_high, overall.interval_kind,
       group_score_overall.group_score,
       group_score_overall.standard_error as group_score_standard_error,
       group_score_overall.group_score_low, group_score_overall.group_score_high,
       group_score_overall.groups, group_score_overall.incomplete_groups,
       frames, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens,
       cost_dollars, latency_p50_seconds, latency_p95_seconds, answered_at, servers, fingerprint,
       judge, judge_letters, judge_failed, judge_cost_dollars,
       case when judge is not null then accuracy_without_judge end as accuracy_without_judge
from overall
join usage using (benchmark, evaluation)
left join group_score_overall using (benchmark, evaluation)
left join sizes using (benchmark)
left join citation using (benchmark, evaluation)
