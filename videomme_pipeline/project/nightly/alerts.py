"""Alerts: one short text to every URL in `VIDEOMME_ALERT_URLS`, sent with apprise.

Nightly runs and sensors decide when to send one. The URLs name a service (Slack, e-mail … in
https://github.com/caronc/apprise/wiki) and contain its token, so they are never in a file.
"""

import os
from dataclasses import dataclass
from typing import Literal

from videomme_pipeline.errors import AlertError, one_line, printable
from videomme_pipeline.extras import needs_extra
from videomme_pipeline.scoring.nightly.assess import Assessment
from videomme_pipeline.scoring.nightly.policy import Severity

URLS_VARIABLE = "VIDEOMME_ALERT_URLS"
UI_VARIABLE = "VIDEOMME_UI"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A one-line title and a plain-text body. Services show the type as a color or an icon."""

    title: str
    body: str
    type: Literal["failure", "warning"] = "failure"


def send(alert: Alert, prefix: str = "") -> None:
    """Send `alert` to all URLs in `VIDEOMME_ALERT_URLS`, which are separated by white space.

    The title begins with `prefix`, which names the project if several projects share one UI. Raises
    AlertError, after all URLs were tried, if a URL or a service did not accept the alert.
    """
    urls = os.environ.get(URLS_VARIABLE, "").split()
    if not urls:
        return
    with needs_extra("alerts", f"sending alerts to {URLS_VARIABLE}"):
        import apprise  # noqa: PLC0415 - loads more than a hundred services

    refused = []
    for number, url in enumerate(urls, start=1):
        service = apprise.Apprise()
        if not service.add(url) or not service.notify(
            title=one_line(f"{prefix}{alert.title}"),
            body=printable(alert.body),
            body_format=apprise.NotifyFormat.TEXT,  # a service escapes what it would act on
            notify_type=alert.type,
        ):
            # The rest of the URL contains a token.
            refused.append(f"number {number} ({url.partition(':')[0]}://…)")
    if refused:
        raise AlertError(
            f"alert {alert.title!r} was not accepted by {', '.join(refused)} of {URLS_VARIABLE}; "
            "check the URL, and whether the service is up"
        )


def ui_address() -> str:
    """URL of the Dagster UI: VIDEOMME_UI, or port 3000 of this machine."""
    return os.environ.get(UI_VARIABLE, "http://localhost:3000").rstrip("/")


def nightly_alert(assessment: Assessment, link: str) -> Alert | None:
    """The alert about the new findings of a nightly run, or None without new findings."""
    if not assessment.new_findings:
        return None
    worst = assessment.new_findings[0]
    is_error = any(finding.severity is Severity.ERROR for finding in assessment.new_findings)
    lines = [
        f"- {finding.check.value}: {one_line(finding.summary)}"
        for finding in assessment.new_findings
    ]
    return Alert(
        title=f"{assessment.evaluation}, {assessment.date}: {worst.check.value.replace('_', ' ')}",
        body="\n".join([*lines, "", link]),
        type="failure" if is_error else "warning",
    )
