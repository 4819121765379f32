"""Write `evalscope.jsonl` with EvalScope, its dataset `general_vmcq` and a local endpoint.

It needs evalscope 1.14.1, which the tests do not. Run it after `make.py`.
"""

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from evalscope import TaskConfig, run_task

FOLDER = Path(__file__).parent
QUESTIONS = json.loads((FOLDER / "annotations.json").read_text())
RESPONSES = ["C", "The answer is D.", "B", "D. Four.", "A", "NA"]
"""As in `make.py`: right, right, wrong, right, right, unreadable."""
ASKED = [f"Video {row['video_id']}. {row['question']}" for row in QUESTIONS]


class Endpoint(BaseHTTPRequestHandler):
    """Answers each question with its made-up response."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = json.dumps(body["messages"])
        (answer,) = (r for asked, r in zip(ASKED, RESPONSES, strict=True) if asked in text)
        message = {"role": "assistant", "content": answer}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        }
        content = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
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
                api_url=f"http://127.0.0.1:{server.server_port}/v1",
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
