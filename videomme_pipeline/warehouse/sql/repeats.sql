-- grain: one row per (benchmark, evaluation with repeats)
-- `accuracy` is the mean over all responses. `flip_rate` is the probability that two different repeats
-- of a question have different answers (letter or outcome); failed responses are left out.
-- `majority_vote` is the accuracy of the most frequent letter of each question. Letters that are
-- equally frequent share the vote, and a question without a letter is not correct. `pass_at_all` is
-- the share of questions with at least one correct repeat (`pass_at_k` has every k). Evaluations
-- without any answer have no row.
with per_answer as (
    select benchmark, evaluation, video_id, question_id, outcome, extracted_answer,
           count(*) as times
    from scored_questions
    group by all
),
per_question as (
    select benchmark, evaluation, video_id, question_id,
           sum(times) as repeats,
           sum(times) filter (outcome <> 'failed') as answered,
           sum(times * (times - 1)) filter (outcome <> 'failed') as equal_pairs,
           coalesce(sum(times) filter (outcome = 'correct'), 0) as correct,
           max(times) filter (extracted_answer is not null) as most_votes
    from per_answer
    group by all
    having sum(times) > 1
),
votes as (
    select benchmark, evaluation, question_id,
           (count(*) filter (outcome = 'correct')) / count(*) as majority
    from per_answer
    join per_question using (benchmark, evaluation, video_id, question_id)
    where extracted_answer is not null and times = most_votes
    group by all
),
per_video as (
    select benchmark, evaluation, video_id,
           max(repeats) as repeats,
           sum(answered) as answered,
           count(*) as questions,
           sum(repeats) as responses,
           sum(correct) as correct,
           sum(coalesce(majority, 0)) as majority,
           sum((correct > 0)::int) as passed,
           nullif(count(*) filter (answered > 1), 0) as compared,
           sum(1 - equal_pairs / (answered * (answered - 1))) filter (answered > 1) as flips
    from per_question
    left join votes using (benchmark, evaluation, question_id)
    group by all
),
estimates as (
    select benchmark, evaluation,
           max(repeats)::bigint as repeats,
           sum(questions)::bigint as questions,
           count(*) as videos,
           sum(responses)::bigint as responses,
           sum(correct) / sum(responses) as accuracy,
           coalesce(sum(compared), 0)::bigint as questions_with_flip_rate,
           sum(flips) / sum(compared) as flip_rate,
           count(compared) as compared_videos,
           clustered_standard_error(flips, compared) as flip_rate_error,
           sum(majority) as majority,
           clustered_standard_error(majority, questions) as majority_error,
           sum(passed) / sum(questions) as pass_at_all
    from per_video
    group by all
    having sum(answered) > 0
)
select benchmark, evaluation, repeats, questions, videos, responses, accuracy,
       questions_with_flip_rate, flip_rate,
       interval_low(flip_rate * questions_with_flip_rate, questions_with_flip_rate,
                    compared_videos, flip_rate_error, flips.t_975) as flip_rate_low,
       interval_high(flip_rate * questions_with_flip_rate, questions_with_flip_rate,
                     compared_videos, flip_rate_error, flips.t_975) as flip_rate_high,
       majority / questions as majority_vote,
       interval_low(majority, questions, videos, majority_error, votes.t_975)
           as majority_vote_low,
       interval_high(majority, questions, videos, majority_error, votes.t_975)
           as majority_vote_high,
       pass_at_all
from estimates
left join t_quantiles as flips on flips.degrees_of_freedom = compared_videos - 1
left join t_quantiles as votes on votes.degrees_of_freedom = videos - 1
