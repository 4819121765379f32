-- grain: one row per (benchmark, evaluation)
-- Headline scores. `questions` of `benchmark_questions` were asked.
select model, sampling, track, reader, repeats, benchmark, evaluation, metric, score, score_low,
       score_high, questions, benchmark_questions, complete, failed, citation, answered_at
from leaderboard join headlines using (benchmark, evaluation)
