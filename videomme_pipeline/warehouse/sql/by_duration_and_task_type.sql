-- grain: one row per (benchmark, evaluation, duration, task_type)
from accuracy_by(['duration', 'task_type'])
