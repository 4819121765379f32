"""Declarative automation: the partitions that Dagster requests automatically if it is turned on.

`AutomationCondition.eager` requests a partition whenever a parent ran, even if its data did not
change, and ignores changes of code. The condition here requires a new data version of a parent or a
new code version of the asset. It is only a trigger: the assets rebuild partitions that are stale by
the rule in `planning.freshness`, and report all others as fresh.
"""

import dagster as dg

AUTOMATION_SENSOR = "automation"


def when_inputs_changed() -> dg.AutomationCondition[dg.AssetKey]:
    """True if the partition is missing, a parent has a new data version, or its code changed."""
    condition = dg.AutomationCondition
    changed_code = condition.code_version_changed().since(condition.newly_requested())
    return (
        condition.eager().replace("newly_updated", condition.data_version_changed())
        | (changed_code & ~condition.in_progress())
    ).with_label("inputs or code changed")


def automation_sensor() -> dg.AutomationConditionSensorDefinition:
    """The automation sensor. It is off by default, because it may cost money."""
    return dg.AutomationConditionSensorDefinition(
        AUTOMATION_SENSOR,
        target=dg.AssetSelection.all(),
        default_status=dg.DefaultSensorStatus.STOPPED,
        minimum_interval_seconds=60,
        description="Materialize partitions whose inputs or code changed.",
    )
