-- grain: one row per (benchmark, evaluation, group_type)
from group_score_by(['group_type'])
