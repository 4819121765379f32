-- grain: one row per (benchmark, evaluation, second_head)
from group_score_by(['second_head'])
