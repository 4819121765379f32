-- grain: one row per (benchmark, evaluation, duration, domain)
from accuracy_by(['duration', 'domain'])
