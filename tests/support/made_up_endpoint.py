"""The made-up questions and responses of `tests/golden/results`, and a model server for them.

It needs the standard library only.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "golden" / "results"
QUESTIONS: list[dict[str, Any]] = [
    {
        "video_id": f"{video:03d}",
        "videoID": f"made-up-{video:03d}",
        "duration": "short",
        "domain": "Knowledge",
        "sub_category": "Astronomy",
        "question_id": f"{video:03d}-{number}",
        "task_type": "Counting Problem",
        "question": f"How many balls are in box {number}?",
        "options": ["A. One.", "B. Two.", "C. Three.", "D. Four."],
        "answer": "ABCD"[(video + number) % 4],
    }
    for video in (1, 2)
    for number in (1, 2, 3)
]
RESPONSES = ["C", "The answer is D.", "B", "D. Four.", "A", "NA"]
"""Right, right, wrong, right, right, unreadable."""

Messages = list[dict[str, Any]]


def serve(answer: Callable[[Messages], str]) -> str:
    """Answer chat completions with what `answer` makes of their messages, while the program runs.

    Return the URL that clients take, up to `/v1`.
    """

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", "content": answer(body["messages"])}
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

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"
