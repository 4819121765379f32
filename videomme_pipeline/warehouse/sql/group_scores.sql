-- grain: one row per (benchmark, evaluation, repeat, video): one group of questions
-- The score is null if the group is not complete. The table `group_outcomes` contains the rules. A
-- facet has the value of the group's last question that has one. In a chain, questions build on each
-- other; `chain_structure` is null for other groups.
with ordered as (
    select *,
           row_number() over (
               partition by benchmark, evaluation, repeat, video_id
               order by
                   coalesce(try_cast(regexp_extract(question_id, '(\d+)\D*$', 1) as hugeint), 0),
                   question_id
           ) as group_place
    from (
        select scored_questions.*, group_size, /* chain */
        from scored_questions join benchmarks using (benchmark)
        where group_size is not null
    )
),
members as (
    select benchmark, evaluation, repeat, video_id,
           any_value(group_size) as group_size,
           count(*) = any_value(group_size)
               and count(distinct question_id) = any_value(group_size)
               and count(is_chain) = any_value(group_size)
               and min(is_chain) = max(is_chain) as whole,
           max(is_chain) as is_chain,
           case when min(chain_structure) = max(chain_structure) then min(chain_structure) end
               as chain_structure,
           count(*) as questions,
           count(*) filter (outcome = 'correct') as correct,
           count(*) filter (outcome = 'unreadable') as unreadable,
           count(*) filter (outcome = 'failed') as failed,
           sum(case outcome when 'incorrect' then 0 when 'correct' then 1 else 2 end
               * 3 ** (least(group_place, group_size) - 1))::bigint as code, /* facets */
    from ordered
    group by benchmark, evaluation, repeat, video_id
)
select members.* exclude (code, is_chain, group_size),
       case when whole then group_score end as group_score,
       case when whole then group_score_official end as group_score_official,
       case when whole then linear_score end as linear_score
from members
left join group_outcomes
    on members.benchmark = group_outcomes.benchmark
    and members.is_chain = group_outcomes.is_chain
    and members.chain_structure is not distinct from group_outcomes.structure
    and members.code = group_outcomes.code
