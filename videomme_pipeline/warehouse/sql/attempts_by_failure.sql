-- grain: one row per (benchmark, evaluation, failure, status); failure null: answered
select benchmark, evaluation, failure, status,
       count(*) as attempts,
       sum(cost_dollars) as cost_dollars,
       quantile_cont(latency_seconds, 0.50) as latency_p50_seconds,
       quantile_cont(latency_seconds, 0.95) as latency_p95_seconds,
       any_value(error) as example
from attempts
group by benchmark, evaluation, failure, status
