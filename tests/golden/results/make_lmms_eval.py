"""Write the samples files of this folder with lmms-eval, its task `videomme` and a local endpoint.

It needs lmms-eval 0.7.3, decord and PyAV, which the tests do not. Run it after `make` in the root
of the repository: `python -m tests.golden.results.make_lmms_eval FOLDER`. FOLDER has the unzipped
wheel of lmms-eval 0.2.0, which writes a whole log.
"""

import base64
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import av
import numpy as np
from PIL import Image

from tests.support.made_up_endpoint import FOLDER, QUESTIONS, RESPONSES, Messages, serve

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {{test: {annotations}}}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.videomme_doc_to_visual
doc_to_text: !function utils.videomme_doc_to_text
doc_to_target: answer
generation_kwargs: {{max_new_tokens: 16, temperature: 0}}
process_results: !function utils.videomme_process_results
metric_list:
  - metric: videomme_perception_score
    aggregation: !function utils.videomme_aggregate_results
    higher_is_better: true
{kwargs}:
  default:
    pre_prompt: ""
    post_prompt: "\\nAnswer with the option's letter from the given choices directly."
metadata:
  - version: 0.0
"""
"""lmms-eval's task `videomme`, with annotations from a file. A key was renamed."""
KEEP_BOTH = """\
filter_list:
  - name: none
    filter:
      - function: take_first_k
        k: 2
"""
"""Keeps both repeats. Without filters, lmms-eval keeps only the first one."""
METRIC = """\
import datasets
import evaluate


class ExactMatch(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("string")})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions):
        raise NotImplementedError
"""
TEXTS = dict(zip(((q["video_id"], q["question"]) for q in QUESTIONS), RESPONSES, strict=True))


def answer(messages: Messages) -> str:
    """Tells the videos apart by their frames: only those of video 002 are noise."""
    text = json.dumps(messages, ensure_ascii=False)
    pictures = [
        part["image_url"]["url"]
        for message in messages
        for part in message["content"]
        if part["type"] == "image_url"
    ]
    content = base64.b64decode(pictures[-1].partition(",")[2])
    video = "001" if np.asarray(Image.open(io.BytesIO(content))).std() < 10 else "002"
    (response,) = (
        response
        for (video_id, question), response in TEXTS.items()
        if video_id == video and question in text
    )
    return response


def write_video(path: Path, *, is_noise: bool) -> None:
    draw = np.random.default_rng(7)
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=4)
        stream.width = stream.height = 64
        for number in range(8):
            picture = np.full((64, 64, 3), 16 * number, np.uint8)
            if is_noise:
                picture = draw.integers(0, 256, (64, 64, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def run(name: str, folder: Path, kwargs: str, *options: str, **environment: str) -> Path:
    """Evaluate the task `name` of `folder`, and return the folder that lmms-eval writes to."""
    output = folder / f"output-{name}"
    (folder / "utils.py").write_text("from lmms_eval.tasks.videomme.utils import *\n")
    text = TASK.format(name=name, annotations="annotations.json", kwargs=kwargs)
    shutil.copy(FOLDER / "annotations.json", folder)
    filters = KEEP_BOTH if "--repeats" in options else ""
    (folder / f"{name}.yaml").write_text(text + filters)
    subprocess.run(
        [sys.executable, "-m", "lmms_eval", "--tasks", name, "--include_path", ".",
         "--log_samples", "--output_path", output.name, "--batch_size", "1", *options],
        check=True,
        cwd=folder,
        env=os.environ
        | {"HF_HOME": str(folder / "hub"), "OPENAI_API_KEY": "none"}
        | environment,
    )  # fmt: skip
    return output


def run_current(name: str, folder: Path, url: str, *options: str) -> None:
    model = ("--model", "openai", "--model_args")
    arguments = f"model_version=made-up,base_url={url},max_frames_num=2"
    output = run(name, folder, "lmms_eval_specific_kwargs", *model, arguments, *options)
    (samples,) = output.rglob("*_samples_*.jsonl")
    shutil.copy(samples, FOLDER / f"{name}.jsonl")


def run_older(name: str, folder: Path, url: str, package: str) -> None:
    """Version 0.2.0 sends the first video with every question. It has videos in another folder, and
    loads a metric of the Hugging Face Hub that the task does not use."""
    videos = folder / "hub" / "videomme"
    shutil.copytree(videos / "data", videos, dirs_exist_ok=True)
    metric = folder / "exact_match" / "exact_match.py"
    metric.parent.mkdir()
    metric.write_text(METRIC)
    model = ("--model", "gpt4v", "--model_args", "max_frames_for_video=2")
    environment = {"PYTHONPATH": package, "OPENAI_API_URL": f"{url}/chat/completions"}
    output = run(
        name, folder, "model_specific_prompt_kwargs", *model, "--log_samples_suffix", "made-up",
        **environment,
    )  # fmt: skip
    (log,) = output.rglob(f"{name}.json")
    (FOLDER / f"{name}.json").write_text(log.read_text().replace(f"{folder}/", ""))


def main() -> None:
    url = serve(answer)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for video, is_noise in (("made-up-001", False), ("made-up-002", True)):
            path = folder / "hub" / "videomme" / "data" / f"{video}.mp4"
            write_video(path, is_noise=is_noise)
        run_current("lmms_eval", folder, url)
        run_current("lmms_eval_repeats", folder, url, "--repeats", "2")
        run_older("lmms_eval_older", folder, url, sys.argv[1])


if __name__ == "__main__":
    main()
