"""The likelihood of answers under SmolLM2-135M.

llama.cpp is native code, so `score_options` runs in a child process. This module imports little,
so that the child starts quickly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx2

from videomme_pipeline.extras import needs_extra

CONTEXT_TOKENS = 2048
CANDIDATE_TOKENS = 500
"""Number of next tokens whose probability is known. All others get the lowest of them."""

_FREE = "Question: What is right?\nAnswer:"
"""The prompt without evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringTask:
    """A question, its options by letter, the evidence, and the file of the model's weights."""

    weights: Path
    question: str
    options: Mapping[str, str]
    evidence: tuple[str, ...]


def score_options(task: ScoringTask) -> dict[str, float]:
    """The score of each option, as `LanguageModel.score` returns it."""
    return _model(task.weights).score(task)


@cache
def _model(weights: Path) -> "LanguageModel":
    return LanguageModel(weights)


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
        # The cache of the prompt then contains the same before every task, so that equal tasks have
        # equal scores.
        self._next(self.tokens(_FREE))

    def score(self, task: ScoringTask) -> dict[str, float]:
        """Increase of each option's log-likelihood due to the evidence and the question.

        Only the tokens that distinguish an option from the others count, so that long options
        have no disadvantage.
        """
        tokens = {letter: self.tokens(f" {option}") for letter, option in task.options.items()}
        lines = "".join(f"{line}\n" for line in task.evidence)
        informed = self._walk(self.tokens(f"{lines}Question: {task.question}\nAnswer:"), tokens)
        free = self._walk(self.tokens(_FREE), tokens)
        return {letter: informed[letter] - free[letter] for letter in tokens}

    def tokens(self, text: str) -> tuple[int, ...]:
        if text not in self._tokens:
            url = f"{self._server.listening_address}/tokenize"
            response = self._http.post(url, json={"content": text})
            self._tokens[text] = tuple(response.raise_for_status().json()["tokens"])
        return self._tokens[text]

    def _walk(
        self, context: tuple[int, ...], options: Mapping[str, tuple[int, ...]]
    ) -> dict[str, float]:
        """Log-probability of each option, of only the tokens at which options start to differ."""
        totals = dict.fromkeys(options, 0.0)
        beginnings = {tokens[:size] for tokens in options.values() for size in range(len(tokens))}
        for beginning in sorted(beginnings, key=lambda tokens: (len(tokens), tokens)):
            size = len(beginning)
            following = {
                letter: tokens[size]
                for letter, tokens in options.items()
                if len(tokens) > size and tokens[:size] == beginning
            }
            if len(set(following.values())) > 1:
                candidates = self._next(context + beginning)
                floor = min(candidates.values())
                for letter, token in following.items():
                    totals[letter] += candidates.get(token, floor)
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
