"""An answer that ends for an unknown reason is stored, and its score must not be cited."""

import dagster as dg
import orjson
import pytest

from tests.support.model_server import ModelServer, always
from tests.support.odd_replies import OddReply, http
from tests.support.projects import WriteServed
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.project.project import Project
from videomme_pipeline.warehouse import database


def paused(completion: dict[str, object]) -> bytes:
    """The answer with a finish reason of its own."""
    copy = orjson.loads(orjson.dumps(completion))
    copy["choices"][0]["finish_reason"] = "paused"
    return http(orjson.dumps(copy))


def blocking(project: Project) -> list[tuple[str, str]]:
    """Status and summary of the citation finding about finish reasons."""
    with database.connect(project.store) as connection:
        return connection.execute(
            "select status, summary from citation_findings where check_name = 'finish_reasons'"
        ).fetchall()


@pytest.mark.slow
def test_the_entry_of_the_model_can_name_the_reason_and_nothing_is_asked_again(
    write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    reply = OddReply("a finish reason of its own", paused, is_answer=True)
    with ModelServer(faults=always(reply)) as server:
        project = write_served(server.base_url, videos=["002"])
        assert refresh_project(project, instance, ["served"]).not_fresh == []
        asked = server.request_count
        summary = "3 of 3 answers end for a reason that is not known: 'paused' (3)"
        assert blocking(project) == [("blocked", summary)]
        project = write_served(server.base_url, videos=["002"], finish_reasons=["paused"])
        assert refresh_project(project, instance, ["served"]).not_fresh == []
        assert blocking(project) == []
        assert server.request_count == asked == 3
