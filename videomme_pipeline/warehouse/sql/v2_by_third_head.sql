-- grain: one row per (benchmark, evaluation, third_head)
from group_score_by(['third_head'])
