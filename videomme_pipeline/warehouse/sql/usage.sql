-- grain: one row per (benchmark, evaluation)
-- Usage of the requests. Sums are over the responses that report a value, and null if no response does.
-- Latencies are of answers only. `cached_share` is over the responses that report both numbers.
select benchmark, evaluation,
       count(*) as responses,
       count(*) filter (outcome <> 'failed') as answered,
       count(*) filter (outcome = 'failed') as failed,
       sum(attempts)::bigint as attempts,
       sum(prompt_tokens)::bigint as prompt_tokens,
       sum(cached_tokens)::bigint as cached_tokens,
       sum(cached_tokens) filter (prompt_tokens is not null)
           / nullif(sum(prompt_tokens) filter (cached_tokens is not null), 0) as cached_share,
       sum(completion_tokens)::bigint as completion_tokens,
       sum(reasoning_tokens)::bigint as reasoning_tokens,
       sum(cost_dollars) as cost_dollars,
       quantile_disc(latency_seconds, 0.50) filter (outcome <> 'failed') as latency_p50_seconds,
       quantile_disc(latency_seconds, 0.95) filter (outcome <> 'failed') as latency_p95_seconds
from scored_questions
group by benchmark, evaluation
