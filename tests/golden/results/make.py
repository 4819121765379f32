"""Write the annotations, and results files with Inspect and pandas.

It needs inspect-ai, pandas and openpyxl, which the tests do not. Run it in the root of the
repository: `python -m tests.golden.results.make`.
"""

import json
from tempfile import TemporaryDirectory

import pandas as pd
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import match
from inspect_ai.solver import Generate, Solver, TaskState, solver

from tests.support.made_up_endpoint import FOLDER, QUESTIONS, RESPONSES


def annotations() -> None:
    (FOLDER / "annotations.json").write_text(json.dumps(QUESTIONS, indent=1) + "\n")


@solver  # type: ignore[untyped-decorator]
def recorded() -> Solver:
    """Answers with the made-up responses; no model is asked."""
    texts = {row["question_id"]: text for row, text in zip(QUESTIONS, RESPONSES, strict=True)}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = ModelOutput.from_content("mockllm/model", texts[str(state.sample_id)])
        return state

    return solve


def inspect() -> None:
    """Two epochs. The answers to the second one are the same."""
    samples = [
        Sample(
            id=row["question_id"],
            input=row["question"],
            choices=[option[3:] for option in row["options"]],
            target=row["answer"],
            metadata={
                name: row[name]
                for name in ("video_id", "duration", "domain", "sub_category", "task_type")
            },
        )
        for row in QUESTIONS
    ]
    task = Task(dataset=samples, solver=recorded(), scorer=match(location="any"), epochs=2)
    with TemporaryDirectory() as folder:
        (run,) = evaluate(task, model="mockllm/model", log_dir=folder, display="none")
        log = read_eval_log(run.location)
    for sample in log.samples or ():
        sample.events = []
    log.eval.revision = None
    write_eval_log(log, str(FOLDER / "inspect.eval"))
    write_eval_log(log, str(FOLDER / "inspect.json"))


def vlmevalkit() -> None:
    """The table that VLMEvalKit writes, with its column names."""
    rows = [
        {"index": index, "video": row["video_id"], "candidates": str(row["options"])}
        | {name: value for name, value in row.items() if name not in ("video_id", "options")}
        | {"prediction": text}
        for index, (row, text) in enumerate(zip(QUESTIONS, RESPONSES, strict=True))
    ]
    pd.DataFrame(rows).to_excel(FOLDER / "vlmevalkit.xlsx", index=False)
    pd.DataFrame(rows).to_pickle(FOLDER / "vlmevalkit.pkl")


if __name__ == "__main__":
    annotations()
    vlmevalkit()
    inspect()
