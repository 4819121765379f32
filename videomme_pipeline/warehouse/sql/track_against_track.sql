-- grain: one row per (benchmark, evaluation with subtitles, evaluation without, duration or all)
-- The two evaluations of a pair differ only in their subtitles: model, sampling, prompt, generation,
-- repeats and reader are the same. Only questions that both have answered are compared; `failed`
-- counts the questions that failed in an evaluation.
with paired as (
    select w.benchmark, w.evaluation as with_subtitles, o.evaluation as without_subtitles,
           w.duration, w.video_id,
           w.outcome = 'failed' or o.outcome = 'failed' as failed,
           w.is_correct::int as with_correct,
           o.is_correct::int as without_correct
    from scored_questions as w
    join scored_questions as o using (benchmark, question_id, repeat, model, sampling, reader)
    where w.pairing is not distinct from o.pairing
      and w.track = replace(o.track, 'without_', 'with_') and w.track <> o.track
),
per_video as (
    select benchmark, with_subtitles, without_subtitles,
           case when grouping(duration) = 1 then 'all' else duration::text end as duration, video_id,
           nullif(count(*) filter (not failed), 0) as responses,
           count(*) filter (failed) as failed,
           sum(with_correct) filter (not failed) as with_correct,
           sum(without_correct) filter (not failed) as without_correct
    from paired
    group by grouping sets (
        (benchmark, with_subtitles, without_subtitles, video_id),
        (benchmark, with_subtitles, without_subtitles, video_id, duration)
    )
),
pairs as (
    select benchmark, with_subtitles, without_subtitles, duration,
           coalesce(sum(responses), 0)::bigint as responses,
           count(responses) as videos,
           count(*) filter (with_correct <> without_correct) as differing_videos,
           sum(failed)::bigint as failed,
           sum(with_correct) / sum(responses) as accuracy_with,
           sum(without_correct) / sum(responses) as accuracy_without,
           sum(with_correct - without_correct) / sum(responses) as difference,
           clustered_standard_error(with_correct - without_correct, responses) as standard_error
    from per_video
    where duration is not null
    group by all
)
select pairs.*,
       difference_low(difference, videos, differing_videos, standard_error, t_975)
           as difference_low,
       difference_high(difference, videos, differing_videos, standard_error, t_975)
           as difference_high,
       difference_kind(videos, differing_videos, standard_error) as interval_kind
from pairs
left join t_quantiles on degrees_of_freedom = videos - 1
