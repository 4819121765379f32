"""Declarative automation: which partitions Dagster asks for by itself, once it is turned on.

`AutomationCondition.eager` makes a partition again whenever a parent ran, also when the parent
came out as it was, and never when code changed. Here a new data version or a changed code version
counts, and a mere re-run does not. It is a trigger only: the assets make what is stale by the one
rule of `freshness` and report the rest as it is.
"""

import dagster as dg

AUTOMATION_SENSOR = "automation"


def when_inputs_changed() -> dg.AutomationCondition[dg.AssetKey]:
    """Missing, or a parent has a new data version, or the code version is another."""
    condition = dg.AutomationCondition
    changed_code = condition.code_version_changed().since(condition.newly_requested())
    return (
        condition.eager().replace("newly_updated", condition.data_version_changed())
        | (changed_code & ~condition.in_progress())
    ).with_label("inputs or code changed")


def automation_sensor() -> dg.AutomationConditionSensorDefinition:
    """Off until it is turned on in the UI: what it asks for may cost money."""
    return dg.AutomationConditionSensorDefinition(
        AUTOMATION_SENSOR,
        target=dg.AssetSelection.all(),
        default_status=dg.DefaultSensorStatus.STOPPED,
        minimum_interval_seconds=60,
        description="Materialize partitions whose inputs or code changed.",
    )
