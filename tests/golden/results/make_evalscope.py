"""Write `evalscope.jsonl` with EvalScope, its dataset `general_vmcq` and a local endpoint.

It needs evalscope 1.14.1, which the tests do not. Run it in the root of the repository:
`python -m tests.golden.results.make_evalscope`.
"""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from evalscope import TaskConfig, run_task

from tests.support.made_up_endpoint import FOLDER, QUESTIONS, RESPONSES, Messages, serve

ASKED = [f"Video {row['video_id']}. {row['question']}" for row in QUESTIONS]


def answer(messages: Messages) -> str:
    text = json.dumps(messages)
    (response,) = (r for asked, r in zip(ASKED, RESPONSES, strict=True) if asked in text)
    return response


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        rows = [
            {"question": asked, "options": [text[3:] for text in row["options"]]}
            | {"answer": row["answer"]}
            for row, asked in zip(QUESTIONS, ASKED, strict=True)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "made_up.jsonl").write_text(lines)
        run_task(
            TaskConfig(
                model="made-up",
                api_url=serve(answer),
                api_key="none",
                eval_type="openai_api",
                datasets=["general_vmcq"],
                dataset_args={"general_vmcq": {"local_path": name, "subset_list": ["made_up"]}},
                repeats=2,
                eval_batch_size=1,
                work_dir=str(folder / "output"),
            )
        )
        (reviews,) = (folder / "output").rglob("reviews/**/*.jsonl")
        shutil.copy(reviews, FOLDER / "evalscope.jsonl")


if __name__ == "__main__":
    main()
