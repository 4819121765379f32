-- grain: one row per (benchmark, evaluation)
-- Usage of the requests. Sums are over the responses that report a value, and null if no response does.
-- Latencies are of answers only. `cached_share` is over the responses that report both numbers.
-- Values per question are of the questions or responses with a known value, and null if there are
-- none. The visual tokens of a prompt are known if the endpoint reports the tokens of its text.
with decoded as (
    select video_hash, frames_fingerprint, avg(decode_cpu_seconds) as decode_cpu_seconds
    from decode_times group by all
), frames as (
    select benchmark, evaluation,
           sum(frame_bytes * asked) / nullif(sum(asked) filter (frame_bytes is not null), 0)
               as frame_bytes_per_question,
           sum(cpu_seconds * asked / on_video)
               / nullif(sum(asked) filter (cpu_seconds is not null), 0)
               as decode_cpu_seconds_per_question
    from (select *, case when question_id is null then on_video else 1 end as asked,
                 case when planned_frames = 0 then 0 else decode_cpu_seconds end as cpu_seconds
          from evaluated_videos
    left join decoded using (video_hash, frames_fingerprint)
    join (select benchmark, evaluation, video_id, count(distinct question_id) as on_video
          from scored_questions group by all) using (benchmark, evaluation, video_id))
    group by benchmark, evaluation
)
select benchmark, evaluation,
       count(*) as responses,
       count(*) filter (outcome <> 'failed') as succeeded,
       count(*) filter (outcome = 'failed') as failed,
       sum(attempts)::bigint as attempts,
       sum(prompt_tokens)::bigint as prompt_tokens,
       sum(cached_tokens)::bigint as cached_tokens,
       sum(cached_tokens) filter (prompt_tokens is not null)
           / nullif(sum(prompt_tokens) filter (cached_tokens is not null), 0) as cached_share,
       sum(completion_tokens)::bigint as completion_tokens,
       sum(reasoning_tokens)::bigint as reasoning_tokens,
       sum(cost_dollars) as cost_dollars,
       quantile_cont(latency_seconds, 0.5) filter (outcome <> 'failed') as latency_p50_seconds,
       quantile_cont(latency_seconds, 0.95) filter (outcome <> 'failed') as latency_p95_seconds,
       avg(num_frames) filter (outcome <> 'failed') as frames_per_question,
       any_value(frame_bytes_per_question) as frame_bytes_per_question,
       any_value(decode_cpu_seconds_per_question) as decode_cpu_seconds_per_question,
       avg(prompt_tokens) filter (outcome <> 'failed') as prompt_tokens_per_question,
       avg(prompt_tokens - text_tokens) filter (outcome <> 'failed') as visual_tokens_per_question,
       avg(reasoning_tokens) filter (outcome <> 'failed') as reasoning_tokens_per_question,
       avg(cost_dollars) as cost_dollars_per_question
from scored_questions left join frames using (benchmark, evaluation)
group by benchmark, evaluation
