"""Declarative automation: the warehouse and the report follow new scores and nightly runs.

`AutomationCondition.eager` requests a partition whenever a parent ran, even if its data did not
change. The condition here requires a new data version of a parent.
"""

import dagster as dg


def when_results_changed() -> dg.AutomationCondition[dg.AssetKey]:
    """True if scores or nightly runs have a new data version, even if others are missing."""
    condition = dg.AutomationCondition
    return (
        condition.eager()
        .without(~condition.any_deps_missing())
        .with_label("scores or nightly runs changed")
        .replace("newly_updated", condition.data_version_changed())
    )


def results_sensor() -> dg.AutomationConditionSensorDefinition:
    """The automation of the results, which cost nothing and are always brought up to date."""
    selection = dg.AssetSelection
    return dg.AutomationConditionSensorDefinition(
        "results",
        target=selection.tag("stage", "warehouse") | selection.tag("stage", "report_page"),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=30,
        description="Rebuild the warehouse and the report when scores or nightly runs change.",
    )
