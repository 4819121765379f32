-- grain: one row per (benchmark, evaluation, task_type)
from accuracy_by(['task_type'])
