-- grain: one row per (benchmark, evaluation, repeat, video): one v2 group
-- The score is null if the group is not complete. The table `group_outcomes` contains the rule.
-- A facet has the value of the group's last question that has one.
with members as (
    select benchmark, evaluation, repeat, video_id,
           min(group_type) as group_type,
           case when min(group_type) = 'logic' then replace(max(group_structure)::text, ' ', '') end
               as structure,
           count(*) as questions,
           count(*) filter (outcome = 'correct') as correct,
           count(*) filter (outcome = 'unreadable') as unreadable,
           count(*) filter (outcome = 'failed') as failed,
           sum(case outcome when 'incorrect' then 0 when 'correct' then 1 else 2 end
               * 3 ** (place - 1))::bigint as code,
           bit_or(1 << place) as places, /* facets */
    from (
        select *, regexp_extract(question_id, '(\d+)\D*$', 1)::int as place
        from scored_questions
        where group_type is not null
    )
    group by all
)
select members.* exclude (code, places),
       questions = 4 and places = 30 as whole,
       case when whole then group_score end as group_score,
       case when whole then group_score_official end as group_score_official,
       case when whole then linear_score end as linear_score
from members
left join group_outcomes
    on members.group_type = group_outcomes.group_type
    and members.structure is not distinct from group_outcomes.structure
    and members.code = group_outcomes.code
