-- grain: one row per (benchmark, evaluation, duration, sub_category)
from accuracy_by(['duration', 'sub_category'])
