-- grain: one row per (benchmark, evaluation, level)
from group_score_by(['level'])
