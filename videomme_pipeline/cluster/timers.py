"""Timers of Dask's own processes.

With Dask's defaults, an idle worker uses 3% of a core, and an idle scheduler 1.6%: they measure
their event loop 50 times per second, sample the stack of each thread 100 times per second, and
read statistics of the machine twice per second. A task here takes seconds, in a child process.
"""

TIMERS: dict[str, str | bool] = {
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.tick.cycle": "5s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.profile.enabled": False,
}
"""Settings in Dask's configuration for the schedulers and workers that we start."""
TIMER_VARIABLES = {
    f"DASK_{key}".upper().replace(".", "__").replace("-", "_"): str(value)
    for key, value in TIMERS.items()
}
"""The same as environment variables."""
EXPORTS = [f"export {name}={value}" for name, value in TIMER_VARIABLES.items()]
"""The same as shell commands."""
