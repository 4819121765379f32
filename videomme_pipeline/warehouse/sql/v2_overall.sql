-- grain: one row per (benchmark, evaluation)
from group_score_by([])
