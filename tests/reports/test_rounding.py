"""Numbers as the results page stores them."""

from videomme_pipeline.reports.document import rounded
from videomme_pipeline.reports.terminal.tables import percent


def test_a_rounded_share_is_shown_as_the_same_percentage() -> None:
    share = 0.429496  # 42.9%; with five digits it would be 0.42950, which is 43.0%
    assert percent(share) == "42.9%"
    assert percent(rounded(share)) == percent(share)


def test_none_stays_none() -> None:
    assert rounded(None) is None
