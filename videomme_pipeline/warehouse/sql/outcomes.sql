-- grain: one row per (benchmark, evaluation, outcome)
select benchmark, evaluation, outcome,
       count(*) as responses,
       sum(count(*)) over (partition by benchmark, evaluation)::bigint as all_responses,
       count(*) / sum(count(*)) over (partition by benchmark, evaluation) as share
from scored_questions
group by benchmark, evaluation, outcome
