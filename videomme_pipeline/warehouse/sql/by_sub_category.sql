-- grain: one row per (benchmark, evaluation, sub_category)
from accuracy_by(['sub_category'])
