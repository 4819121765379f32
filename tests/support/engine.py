"""A program that is started like an inference engine, and serves answers of a `ModelServer`.

    python tests/support/engine.py WEIGHTS --served-model-name NAME --host HOST --port PORT …

Its weights are a folder. It ends at once if the folder has a file `broken`, whose content is its
last output, and answers once it has started a second process, as engines do, and the folder has no
file `slow`.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.support.model_server import ModelServer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("weights", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    arguments, _ = parser.parse_known_args()
    print(f"loading {arguments.weights}", flush=True)  # noqa: T201
    broken = arguments.weights / "broken"
    if broken.exists():
        sys.exit(broken.read_text("utf-8") or "out of memory")
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    while (arguments.weights / "slow").exists():
        time.sleep(0.05)
    reports = {"/version": {"version": "1.0"}}
    with ModelServer(host=arguments.host, port=arguments.port, reports=reports):
        time.sleep(600)


if __name__ == "__main__":
    main()
