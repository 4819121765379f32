-- grain: one row per (benchmark, evaluation, duration)
from accuracy_by(['duration'])
