"""Tell people: one message to every place that they named, through `apprise`.

What is worth telling is decided elsewhere. Places are apprise URLs (Slack, e-mail, webhooks …:
https://github.com/caronc/apprise/wiki); they hold tokens, so they stand in an environment
variable and never in a file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from videomme_pipeline.errors import AlertError
from videomme_pipeline.extras import needs_extra
from videomme_pipeline.scoring.nightly.assess import Assessment

URLS_VARIABLE = "VIDEOMME_ALERT_URLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A title of one line, and a body of plain text."""

    title: str
    body: str


def alert_urls(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Where alerts go: the URLs in `VIDEOMME_ALERT_URLS`, separated by white space."""
    return tuple(environment.get(URLS_VARIABLE, "").split())


def send(alert: Alert, urls: Sequence[str]) -> None:
    """Send `alert` to all of `urls`; without any, nothing is sent.

    Raises:
        AlertError: when a URL is not understood or a message was not taken. All are tried.
    """
    if not urls:
        return
    with needs_extra("alerts", f"sending alerts to {URLS_VARIABLE}"):
        import apprise  # noqa: PLC0415 - loads more than a hundred services

    refused = []
    for number, url in enumerate(urls, start=1):
        place = apprise.Apprise()
        if not place.add(url) or not place.notify(title=alert.title, body=alert.body):
            # The address itself holds a token, so only its kind is named.
            refused.append(f"number {number} ({url.partition(':')[0]}://…)")
    if refused:
        raise AlertError(
            f"alert {alert.title!r} was not taken by {', '.join(refused)} of {URLS_VARIABLE}; "
            "check the address, and that the service is up"
        )


def night_alert(report: Assessment, link: str) -> Alert | None:
    """What a night found that the night before had not; None where there is nothing new."""
    if not report.new_findings:
        return None
    worst = report.new_findings[0]
    lines = [f"- {finding.check.value}: {finding.summary}" for finding in report.new_findings]
    return Alert(
        title=f"{report.evaluation}, {report.date}: {worst.check.value.replace('_', ' ')}",
        body="\n".join([*lines, "", link]),
    )


def run_failure_alert(job: str, run_id: str, error: str, link: str) -> Alert:
    """That a run failed, and why."""
    return Alert(title=f"{job} failed", body=f"Run {run_id}: {error}\n\n{link}")
