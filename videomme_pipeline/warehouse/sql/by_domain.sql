-- grain: one row per (benchmark, evaluation, domain)
from accuracy_by(['domain'])
