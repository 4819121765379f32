"""A real `videomme ui` with its daemon, used through the GraphQL API of its buttons."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.support.commands import VIDEOMME, environment_of
from tests.support.paths import ROOT
from tests.support.ports import free_port

LAUNCH_RUN = """
mutation($params: ExecutionParams!) {
  result: launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on PythonError { message }
  }
}
"""
TERMINATE_RUN = """
mutation($run: String!) { result: terminateRun(runId: $run) { __typename } }
"""
LAUNCH_BACKFILL = """
mutation($params: LaunchBackfillParams!) {
  result: launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
BACKFILL_STATUS = """
query($id: String!) {
  result: partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } }
}
"""
METADATA_OF_PAGE = """
query {
  result: assetNodeOrError(assetKey: {path: ["report_page"]}) {
    ... on AssetNode { metadataEntries { ... on UrlMetadataEntry { label url } } }
  }
}
"""


class DagsterUI:
    """The API of a running UI. `process` is the `videomme ui` command."""

    def __init__(self, url: str, process: "subprocess.Popen[bytes]") -> None:
        self.url = url
        self.process = process

    def launch_run(self, job: str, run_config: dict[str, Any]) -> str:
        """Launch a run as the *Launchpad* does, and return its id."""
        selector = {
            "repositoryLocationName": "videomme",
            "repositoryName": "__repository__",
            "jobName": job,
        }
        params = {"selector": selector, "runConfigData": run_config, "mode": "default"}
        launched = self._ask(LAUNCH_RUN, params=params)
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def terminate(self, run_id: str) -> None:
        """Press *Terminate* of a run."""
        assert self._ask(TERMINATE_RUN, run=run_id)["__typename"] == "TerminateRunSuccess"

    def launch_backfill(self, assets: Sequence[Sequence[str]], partitions: Sequence[str]) -> str:
        """Launch a backfill of some partitions of assets, and return its id."""
        selection = [{"path": list(asset)} for asset in assets]
        params = {"assetSelection": selection, "partitionNames": list(partitions)}
        return str(self._ask(LAUNCH_BACKFILL, params=params)["backfillId"])

    def backfill_status(self, backfill_id: str) -> str:
        return str(self._ask(BACKFILL_STATUS, id=backfill_id)["status"])

    def results_page(self) -> str:
        """The page that the asset `report_page` links to, or the reason why there is none."""
        metadata = self._ask(METADATA_OF_PAGE)["metadataEntries"]
        (address,) = [entry["url"] for entry in metadata if entry.get("label") == "page"]
        try:
            with urlopen(address, timeout=10) as response:
                return str(response.read().decode())
        except HTTPError as error:
            return error.read().decode()

    def is_up(self) -> bool:
        try:
            self._ask("query { result: version }")
        except (URLError, ConnectionError):
            return False
        return True

    def _ask(self, query: str, **variables: Any) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=120) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]["result"]


@contextmanager
def running_ui(root: Path) -> Iterator[DagsterUI]:
    """The UI of the project in `root`. Leaving the block stops it with Ctrl-C."""
    port = free_port()
    with (root / "ui.log").open("ab") as log:
        process = subprocess.Popen(
            [VIDEOMME, "ui", "--port", str(port)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=ROOT,
            env=os.environ | environment_of(root),
        )
    ui = DagsterUI(f"http://127.0.0.1:{port}", process)
    try:
        wait_until(ui.is_up)
        yield ui
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)


def wait_until(condition: Callable[[], object], seconds: float = 240.0) -> None:
    """Wait until `condition` is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.1)
