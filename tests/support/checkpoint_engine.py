"""A program that is started like vLLM, and answers as well as its checkpoint says.

    python -m tests.support.checkpoint_engine WEIGHTS --port PORT …

The file `wrong_every` in the weights is empty, or has a number n: every n-th question is answered
wrong. The ids of the asked questions are appended to `asked` beside the weights.
"""

import argparse
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.published_data import v1_rows

ANSWERS = {row["question_id"]: row["answer"] for row in v1_rows()}
NUMBERS = {question_id: number for number, question_id in enumerate(ANSWERS)}
_lock = threading.Lock()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("weights", type=Path)
    parser.add_argument("--port", type=int, required=True)
    arguments, _ = parser.parse_known_args()
    weights: Path = arguments.weights
    if (weights / "broken").exists():
        sys.exit("out of memory")
    text = (weights / "wrong_every").read_text()
    wrong_every = int(text) if text else None

    class Engine(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send({"data": [{"id": "served"}]})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            [question_id] = re.findall(r"What happens in (\d+-\d)\?", body)
            with _lock, (weights.parent / "asked").open("a") as asked:
                asked.write(f"{weights.name} {question_id}\n")
            answer = ANSWERS[question_id]
            if wrong_every is not None and NUMBERS[question_id] % wrong_every == 0:
                answer = "BADC"["ABCD".index(answer)]
            message = {"role": "assistant", "content": answer}
            self._send(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "served",
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
                }
            )

        def _send(self, content: object) -> None:
            data = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", arguments.port), Engine).serve_forever()


if __name__ == "__main__":
    main()
