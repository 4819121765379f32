"""What keeps scores from being cited, shown by every command that prints scores."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from videomme_pipeline.cli.context import err

if TYPE_CHECKING:
    from videomme_pipeline.storage.layout import Store


def open_findings(store: "Store", evaluations: Sequence[str]) -> list[dict[str, Any]]:
    """The findings about these evaluations that are not ok, the worst ones first."""
    from videomme_pipeline.warehouse.database import connect, query

    with connect(store) as connection:
        return query(
            connection,
            "select * from citation_findings "
            "where status <> 'ok' and list_contains(?, evaluation) "
            "order by list_position(['blocked', 'warning', 'unknown'], status), evaluation, "
            "check_name",
            [list(evaluations)],
        )


def print_findings(store: "Store", evaluations: Sequence[str]) -> None:
    """Print the open findings on standard error, so that tables can be read by programs."""
    from videomme_pipeline.reports.terminal.citation import show_findings

    show_findings(err, open_findings(store, evaluations))
