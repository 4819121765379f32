-- grain: one row per (run, step, template)
-- Checkpoints of training runs with their scores and verdicts. `score` is the headline metric as a
-- fraction of one, and null if the checkpoint was not evaluated. `difference` is in points of 100.
select run, step, template, benchmark, evaluation, folder, outcome, reference, verdict,
       difference, difference_low, difference_high, p_value, reason,
       questions, videos, responses, failed, score, score_low, score_high
from checkpoints
left join overall using (benchmark, evaluation)
left join headlines using (benchmark, evaluation)
