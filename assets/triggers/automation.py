"""Declarative automation: the partitions that Dagster requests automatically if it is turned on.

`AutomationCondition.eager` requests a partition whenever a parent ran, even if its data did not
change, and ignores changes of code. The condition here requires a new data version of a parent or a
new code version of the asset. It is only a trigger: the assets rebuild partitions that are stale by
the plan's rule, and report all others as fresh.
"""

import dagster as dg

RESULTS = dg.AssetSelection.tag("stage", "warehouse") | dg.AssetSelection.tag(
    "stage", "report_page"
)
"""The assets that cost nothing and are always brought up to date."""


def when_inputs_changed() -> dg.AutomationCondition[dg.AssetKey]:
    """True if the partition is missing, a parent has a new data version, or its code changed."""
    condition = dg.AutomationCondition
    changed_code = condition.code_version_changed().since(condition.newly_requested())
    return (
        condition.eager().replace("newly_updated", condition.data_version_changed())
        | (changed_code & ~condition.in_progress())
    ).with_label("inputs or code changed")


def when_results_changed() -> dg.AutomationCondition[dg.AssetKey]:
    """True if scores or nightly runs have a new data version, even if others are missing."""
    condition = dg.AutomationCondition
    return (
        condition.eager()
        .without(~condition.any_deps_missing())
        .with_label("scores or nightly runs changed")
        .replace("newly_updated", condition.data_version_changed())
    )


def automation_sensors() -> list[dg.AutomationConditionSensorDefinition]:
    """The automation of the results, and that of all other assets, which may cost money."""
    return [
        dg.AutomationConditionSensorDefinition(
            "results",
            target=RESULTS,
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=30,
            description="Rebuild the warehouse and the report when scores or nightly runs change.",
        ),
        dg.AutomationConditionSensorDefinition(
            "automation",
            target=dg.AssetSelection.all() - RESULTS,
            default_status=dg.DefaultSensorStatus.STOPPED,
            minimum_interval_seconds=60,
            description="Materialize partitions whose inputs or code changed.",
        ),
    ]
