-- grain: one row per (model, sampling, track, reader, benchmark)
-- Scores of the same settings on several benchmarks. A combination that was not evaluated has no
-- `score`. If several evaluations have these settings, a complete evaluation or else the last counts.
-- `questions` of `benchmark_questions` were asked.
with scored as (
    select model, sampling, track, reader, benchmark, evaluation, metric, score, score_low,
           score_high, questions, benchmark_questions, complete, failed, citation,
           row_number() over (
               partition by model, sampling, track, reader, benchmark
               order by complete desc, answered_at desc nulls last, evaluation
           ) as place
    from leaderboard join headlines using (benchmark, evaluation)
),
settings as (select distinct model, sampling, track, reader from scored),
evaluated as (select distinct benchmark from scored)
select model, sampling, track, reader, benchmark, evaluation, metric, score, score_low, score_high,
       questions, benchmark_questions, complete, failed, citation
from settings cross join evaluated
left join (from scored where place = 1) using (model, sampling, track, reader, benchmark)
