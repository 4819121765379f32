"""The Dagster executor that `runs.yaml` names."""

import os
from importlib import import_module

import dagster as dg
from dagster import DagsterInvalidConfigError

from assets.instance import POSTGRES_VARIABLE
from assets.processes import recording_process
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.runs.settings import IN_PROCESS, RUNS_FILE, RunsSpec


def find_executor(spec: RunsSpec) -> dg.ExecutorDefinition:
    """The executor of `spec` with its configuration.

    Raises:
        ConfigurationError: if there is no such executor, its configuration has mistakes, or its
            processes could not share the limits of their run.
    """
    module, _, name = spec.executor.rpartition(".")
    try:
        executor = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{RUNS_FILE}: `executor: {spec.executor}` cannot be imported ({error}); install its "
            "package, or leave it out"
        ) from error
    if not isinstance(executor, dg.ExecutorDefinition):
        raise ConfigurationError(
            f"{RUNS_FILE}: `executor: {spec.executor}` is not a Dagster executor; use one such as "
            "dagster.multiprocess_executor"
        )
    if spec.executor != IN_PROCESS and not os.environ.get(POSTGRES_VARIABLE):
        raise ConfigurationError(
            f"{RUNS_FILE}: `executor: {spec.executor}` starts several processes per run, which "
            f"share their cost limit through PostgreSQL; set {POSTGRES_VARIABLE}"
        )
    executor = recording_process(executor)
    try:
        return executor.configured(spec.executor_config) if spec.executor_config else executor
    except DagsterInvalidConfigError as error:
        raise ConfigurationError(f"{RUNS_FILE}: `executor_config`: {error}") from error
