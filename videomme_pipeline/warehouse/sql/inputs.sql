-- grain: one row per (benchmark, question_id)
-- The input record of the benchmark contract, with the contract's names: `example_id`, `video_path`,
-- `subcategory` and `task_type`. It has the inputs of a model before frames are sampled and subtitles are
-- aligned. `subtitles` are the raw timed segments in order of time, or null for a video without a subtitle
-- file. Both `subtitles` and `video_path` are null for a video that is not read yet. `subcategory` is the
-- dataset's `sub_category`.
-- `task_type` has the values of the contract (perception, reasoning, temporal) if the benchmark has the facet
-- `skill`, and `task_category` has those of the dataset's `task_type`.
with timed as (
    select benchmark, video_id,
           list({
               'start_seconds': start_seconds, 'end_seconds': end_seconds, 'text': text
           } order by start_seconds, number) as segments
    from subtitle_segments
    group by all
)
select questions.benchmark,
       'video_' || questions.video_id || '_q' || row_number() over (
           partition by questions.benchmark, questions.video_id order by questions.rowid
       ) as example_id,
       questions.question_id, questions.video_id, videos.path as video_path,
       questions.question, questions.options, timed.segments as subtitles, questions.answer,
       questions.facets ->> 'duration' as duration, questions.facets ->> 'domain' as domain,
       questions.facets ->> 'sub_category' as subcategory,
       coalesce(questions.facets ->> 'skill', questions.facets ->> 'task_type') as task_type,
       questions.facets ->> 'task_type' as task_category,
       questions.facets
from questions
left join videos using (benchmark, video_id)
left join timed using (benchmark, video_id)
