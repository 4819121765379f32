-- grain: one row per (benchmark, evaluation)
-- `citation` is the worst status of its checks: ok, unknown, warning or blocked. A blocked score must
-- not be cited. `citation_checks` names the checks with this status. `citation_findings` has every
-- check, with a sentence and what to do.
with ranked as (
    select *, list_position(['ok', 'unknown', 'warning', 'blocked'], status) as severity
    from citation_findings
),
worst as (
    select benchmark, evaluation, max(severity) as severity
    from ranked
    group by all
)
select benchmark, evaluation, any_value(status) as citation,
       string_agg(check_name, ', ' order by check_name) filter (status <> 'ok') as citation_checks
from ranked
join worst using (benchmark, evaluation, severity)
group by all
