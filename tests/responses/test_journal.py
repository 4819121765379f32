"""The journal: what is kept, who may ask, and what a full disk does."""

import sqlite3
import subprocess
import sys
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from videomme_pipeline.errors import StorageError
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure
from videomme_pipeline.responses.journal import (
    Attempt,
    Journal,
    Recorded,
    recorded_failure,
    recorded_reply,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def attempt(fingerprint: str, **changes: object) -> Attempt:
    base = Attempt(
        request_fingerprint=fingerprint,
        evaluation="test",
        model="m",
        question_id="001-1",
        sample=0,
        started_at=NOW,
        latency_seconds=0.5,
        status=200,
        failure=None,
        error=None,
        prompt_tokens=10,
        completion_tokens=1,
        cached_tokens=0,
        cost_dollars=0.25,
        usage_json="{}",
        body=None,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def answer(fingerprint: str, text: str = "B") -> Recorded:
    return recorded_reply(fingerprint, Reply(text=text, body="{}"), latency_seconds=0.5, now=NOW)


def committed(done: "Future[None]") -> None:
    done.result(timeout=10)


def test_an_answer_is_kept_as_it_came(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        committed(journal.record(attempt("a"), answer("a")))
    with Journal(tmp_path / "journal") as journal:
        assert journal.answered(["a", "b"]) == {"a": answer("a")}
        assert journal.attempts(["a"]) == [attempt("a")]


def test_a_failure_is_an_attempt_and_never_an_answer(tmp_path: Path) -> None:
    failed = attempt("a", status=500, failure=FailureKind.SERVER_ERROR, error="HTTP 500")
    with Journal(tmp_path / "journal") as journal:
        committed(journal.record(failed, None))
        assert journal.answered(["a"]) == {}
        assert journal.attempts(["a"]) == [failed]


def test_a_refusal_is_settled_without_an_answer(tmp_path: Path) -> None:
    refusal = ResponseFailure(FailureKind.REFUSED, "no", reply=Reply(text="", prompt_tokens=7))
    with Journal(tmp_path / "journal") as journal:
        settled = recorded_failure("a", refusal, latency_seconds=0.1, now=NOW)
        committed(journal.record(attempt("a", failure=FailureKind.REFUSED), settled))
        kept = journal.answered(["a"])["a"]
    assert (kept.raw_output, kept.failure, kept.prompt_tokens) == (None, "refused", 7)


def test_the_first_answer_stays(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        committed(journal.record(attempt("a"), answer("a", "B")))
        committed(journal.record(attempt("a"), answer("a", "C")))
        assert journal.answered(["a"])["a"].raw_output == "B"
        assert len(journal.attempts(["a"])) == 2


def test_money_is_counted_by_evaluation_and_attempt(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        committed(journal.record(attempt("a"), None))
        committed(journal.record(attempt("a"), answer("a")))
        committed(journal.record(attempt("b", evaluation="other"), answer("b")))
        assert journal.spent_dollars("test") == 0.5
        assert journal.spent_dollars("none") == 0.0


def test_a_claim_keeps_others_from_asking_until_it_runs_out(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as one, Journal(tmp_path / "journal") as two:
        assert one.claim(["a", "b"], NOW, 60) == {"a", "b"}
        assert two.claim(["a", "b", "c"], NOW, 60) == {"c"}
        one.release(["b"])
        assert two.claim(["b"], NOW, 60) == {"b"}
        later = NOW + timedelta(seconds=61)
        one.renew_claims(NOW + timedelta(seconds=30), 60)
        assert two.claim(["a"], later, 60) == set()
        assert two.claim(["a"], later + timedelta(seconds=60), 60) == {"a"}


def test_what_is_answered_cannot_be_claimed(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as one, Journal(tmp_path / "journal") as two:
        one.claim(["a"], NOW, 60)
        committed(one.record(attempt("a"), answer("a")))
        assert two.claim(["a"], NOW, 60) == set()


def test_closing_gives_up_claims(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as one:
        one.claim(["a"], NOW, 60)
    with Journal(tmp_path / "journal") as two:
        assert two.claim(["a"], NOW, 60) == {"a"}


def test_the_claims_of_a_dead_process_end_with_it(tmp_path: Path) -> None:
    code = (
        "import os, sys; from datetime import datetime, UTC; from pathlib import Path\n"
        "from videomme_pipeline.responses.journal import Journal\n"
        "Journal(Path(sys.argv[1])).claim(['a'], datetime(2026, 11, 21, 12, tzinfo=UTC), 1e9)\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "journal")], check=False)
    with Journal(tmp_path / "journal") as journal:
        assert journal.claim(["a"], NOW, 60) == {"a"}


def test_what_nobody_waits_for_is_kept_all_the_same(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        for number in range(50):
            journal.record(attempt(str(number)), answer(str(number))).cancel()
        committed(journal.record(attempt("last"), answer("last")))
        assert len(journal.answered([*map(str, range(50)), "last"])) == 51


def test_records_that_queue_up_share_a_commit(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        blocker = sqlite3.connect(tmp_path / "journal", isolation_level=None)
        blocker.execute("begin immediate")
        done = [journal.record(attempt(str(n)), answer(str(n))) for n in range(100)]
        blocker.execute("commit")
        for item in done:
            committed(item)
        before = (tmp_path / "journal-wal").stat().st_size
        committed(journal.record(attempt("one"), answer("one")))
        one_commit = (tmp_path / "journal-wal").stat().st_size - before
        blocker.close()
    assert before < 20 * one_commit


def test_a_disk_that_cannot_be_written_is_said_and_not_acknowledged(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        committed(journal.record(attempt("a"), answer("a")))
        other = sqlite3.connect(tmp_path / "journal")
        other.execute("drop table attempts")
        other.commit()
        other.close()
        with pytest.raises(StorageError, match="free some space"):
            journal.record(attempt("b"), answer("b")).result(timeout=10)
        assert journal.answered(["a", "b"]).keys() == {"a"}
