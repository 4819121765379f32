"""The options of llama.cpp's `llama-server` that tests use, for the server in xllamacpp.

python tests/support/llama_server.py --model FILE --mmproj FILE --port PORT …
"""

import argparse
import signal
from pathlib import Path

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="version", version=f"version: {_version()}")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--mmproj", type=Path)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ctx-size", type=int, default=2048)
    arguments = parser.parse_args()
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(arguments.model)
    if arguments.mmproj is not None:
        parameters.mmproj.path = str(arguments.mmproj)
    parameters.mmproj_use_gpu = False
    parameters.model_alias = {arguments.alias}
    parameters.hostnames = [arguments.host]
    parameters.port = arguments.port
    parameters.n_ctx = arguments.ctx_size
    parameters.n_parallel = 1
    parameters.n_gpu_layers = 0
    parameters.warmup = False
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(f"listening on {server.listening_address}", flush=True)  # noqa: T201
    signal.pause()


def _version() -> str:
    return str(xllamacpp.__version__)


if __name__ == "__main__":
    main()
