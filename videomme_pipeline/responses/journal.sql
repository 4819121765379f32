create table if not exists responses (
    request_fingerprint text primary key, raw_output text, reasoning text, finish_reason text,
    failure text, error text, reported_model text, system_fingerprint text,
    prompt_tokens integer, completion_tokens integer, cached_tokens integer,
    reasoning_tokens integer, usage_json text, cost_dollars real, body text, warning text,
    latency_seconds real, attempts integer not null, answered_at text not null, checksum text,
    text_tokens integer
) without rowid;
create table if not exists attempts (
    request_fingerprint text not null, evaluation text not null, model text not null,
    question_id text not null, repeat integer not null, started_at text not null,
    latency_seconds real not null, status integer, failure text, error text,
    prompt_tokens integer, completion_tokens integer, cached_tokens integer,
    cost_dollars real, usage_json text, body text, checksum text
);
create index if not exists attempts_of_request on attempts (request_fingerprint);
create index if not exists attempts_of_evaluation on attempts (evaluation);
create table if not exists claims (
    request_fingerprint text primary key, owner text not null, expires_at real not null
) without rowid;
