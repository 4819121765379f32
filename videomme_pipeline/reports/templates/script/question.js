// One question: its text and options, the letters read, and below them answers and inputs.

import { go, link } from "./address.js";
import { answerCard, factList } from "./answers.js";
import { facetsOf, readAnswers } from "./data.js";
import { h } from "./dom.js";
import { inputSections } from "./inputs.js";
import { listing } from "./questions.js";
import { seriesPicker, shownEvaluations } from "./picker.js";

export function questionView({ benchmark, params, details, share }) {
  const index = benchmark.questions.id.indexOf(params.get("id"));
  if (index < 0)
    return [
      h("p", { class: "notice" }, `No question ${params.get("id") ?? ""} in ${benchmark.name}.`),
    ];
  const shown = shownEvaluations(benchmark, params);
  const { questions } = benchmark;
  const texts = details?.questions[index];
  const facts = [
    ["Video", questions.video[index]],
    ...facetsOf(benchmark).map(([key, title]) => [title, questions[key][index]]),
    ["Correct answer", questions.answer[index]],
  ];
  return [
    h(
      "div",
      { class: "question-head" },
      h("h2", {}, `Question ${questions.id[index]}`),
      neighbours(benchmark, index),
    ),
    factList(facts),
    share
      ? h(
          "p",
          { class: "notice" },
          "This is a shared page: it has no question, options, prompts, responses, subtitles or frames.",
        )
      : null,
    !share && !details ? h("p", { class: "notice" }, "Loading the texts …") : null,
    texts?.question && h("p", { class: "question-text", dir: "auto" }, texts.question),
    texts?.options && optionList(benchmark, index, texts, shown),
    h(
      "div",
      { class: "legend" },
      benchmark.evaluations.length > shown.length
        ? seriesPicker(benchmark, params, "question")
        : null,
    ),
    h(
      "div",
      { class: "answers" },
      shown.map((item) => answerCard(benchmark, item, index, details)),
    ),
    texts && inputSections(benchmark, details, index, shown),
  ];
}

function neighbours(benchmark, index) {
  const { id } = benchmark.questions;
  const rows =
    listing?.benchmark === benchmark.name
      ? listing.table.sorted().map((row) => row.index)
      : id.map((_, position) => position);
  const current = rows.indexOf(index);
  const step = (position, text, rel) =>
    position >= 0 && position < rows.length
      ? h("a", { href: link("question", { id: id[rows[position]] }), rel }, text)
      : h("span", { class: "soft" }, text);
  return h(
    "nav",
    { "aria-label": "Questions", class: "controls-line" },
    h("button", { type: "button", class: "plain link", onclick: backToList }, "All questions"),
    " · ",
    step(current < 0 ? -1 : current - 1, "← Previous", "prev"),
    " · ",
    step(current + 1, "Next →", "next"),
  );
}

export function backToList() {
  go(listing?.address ?? link("questions"));
}

function optionList(benchmark, index, texts, shown) {
  const answer = benchmark.questions.answer[index];
  const letters = "ABCDEFGHIJKLMN";
  return h(
    "ol",
    { class: "options" },
    texts.options.map((option, position) => {
      const letter = letters[position];
      const readers = shown.filter((item) =>
        readAnswers(benchmark.results[item.index][index]).some((read) => read.letter === letter),
      );
      return h(
        "li",
        { class: letter === answer ? "right" : null },
        h("span", { dir: "auto" }, option),
        h(
          "span",
          { class: "readers" },
          letter === answer
            ? h(
                "span",
                { class: "outcome correct" },
                h("span", { "aria-hidden": "true" }, "✓"),
                "correct answer",
              )
            : null,
          readers.map((item) =>
            h(
              "span",
              { class: `outcome ${letter === answer ? "correct" : "incorrect"}` },
              "read from ",
              item.name,
            ),
          ),
        ),
      );
    }),
  );
}
