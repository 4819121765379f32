"""Events as the pages of assets show them. The log of a run has one entry per batch."""

import dagster as dg

from videomme_pipeline.assets.dagster_internals import EVENTS_AT_A_TIME


def materializations(instance: dg.DagsterInstance, run_id: str) -> list[dg.EventLogEntry]:
    """The materializations of a run, by asset, oldest first."""
    entries: list[dg.EventLogEntry] = []
    for key in instance.all_asset_keys():
        of_asset: list[dg.EventLogRecord] = []
        cursor = None
        while True:
            page = instance.fetch_materializations(
                key, limit=EVENTS_AT_A_TIME, cursor=cursor, ascending=True
            )
            of_asset += page.records
            cursor = page.cursor
            if not page.has_more:
                break
        entries += [r.event_log_entry for r in of_asset if r.run_id == run_id]
    return entries
