-- grain: one row per (benchmark, evaluation)
from accuracy_by([])
