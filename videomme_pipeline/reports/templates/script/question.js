// One question: its text and options, the inputs and answers of each model, and the letters read.

import { go, link } from "./address.js";
import { seriesPicker, shownEvaluations } from "./breakdowns.js";
import { facetsOf, outcomeMark, readAnswers } from "./data.js";
import { h } from "./dom.js";
import { clock, count, dollars, known, plural, seconds } from "./format.js";
import { listing } from "./questions.js";

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
    texts && sources(benchmark, details, index, shown),
  ];
}

function factList(facts) {
  return h(
    "dl",
    { class: "facts" },
    facts
      .filter(([, value]) => known(value))
      .map(([name, value]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value instanceof Node ? value : String(value))),
      ),
  );
}

function neighbours(benchmark, index) {
  const { id } = benchmark.questions;
  const rows =
    listing?.benchmark === benchmark.name
      ? listing.table.sorted().map((row) => row.index)
      : id.map((_, position) => position);
  const place = rows.indexOf(index);
  const step = (position, text, rel) =>
    position >= 0 && position < rows.length
      ? h("a", { href: link("question", { id: id[rows[position]] }), rel }, text)
      : h("span", { class: "soft" }, text);
  return h(
    "nav",
    { "aria-label": "Questions", class: "controls-line" },
    h("button", { type: "button", class: "plain link", onclick: backToList }, "All questions"),
    " · ",
    step(place < 0 ? -1 : place - 1, "← Previous", "prev"),
    " · ",
    step(place + 1, "Next →", "next"),
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
    texts.options.map((option, place) => {
      const letter = letters[place];
      const readers = shown.filter((item) =>
        readAnswers(benchmark.results[item.index][index]).some((one) => one.letter === letter),
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

function answerCard(benchmark, item, index, details) {
  const answers = readAnswers(benchmark.results[item.index][index]);
  const texts = details?.questions[index]?.answers?.[item.index] ?? [];
  return h(
    "article",
    { class: "answer" },
    h(
      "h3",
      {},
      item.name,
      h(
        "span",
        {},
        answers.length ? answers.map(outcomeMark) : h("span", { class: "soft" }, "not asked"),
      ),
    ),
    h("p", { class: "soft" }, item.model, " · ", item.sampling, " · ", item.track),
    texts.map((text, repeat) => answerBlock(text, repeat, texts.length)),
  );
}

function answerBlock(text, repeat, total) {
  return h(
    "div",
    {},
    total > 1 ? h("h4", {}, `Repeat ${repeat + 1} of ${total}`) : null,
    known(text.raw) ? [h("h4", {}, "Response"), modelText(text.raw, text.span)] : null,
    text.error
      ? [h("h4", {}, "Error"), h("pre", { class: "model-text", dir: "auto" }, text.error)]
      : null,
    h("p", { class: "soft" }, howRead(text)),
    factList([
      ["Frames", text.num_frames],
      ["Prompt tokens", text.prompt_tokens && count(text.prompt_tokens)],
      ["Completion tokens", text.completion_tokens && count(text.completion_tokens)],
      ["Cached tokens", text.cached_tokens && count(text.cached_tokens)],
      ["Reasoning tokens", text.reasoning_tokens && count(text.reasoning_tokens)],
      ["Latency", known(text.latency_seconds) ? seconds(text.latency_seconds) : null],
      ["Attempts", text.attempts],
      ["Finish reason", text.finish_reason],
      ["Cost", known(text.cost_dollars) ? dollars(text.cost_dollars) : null],
      ["Served by", text.reported_model],
    ]),
    text.judge ? fold("Response of the judge", modelText(text.judge)) : null,
    text.reasoning ? fold("Reasoning", modelText(text.reasoning)) : null,
    text.system ? fold("System message", modelText(text.system)) : null,
    text.prompt ? fold("Prompt as sent", modelText(text.prompt)) : null,
    text.after_frame?.length
      ? fold(
          "Texts between frames",
          h(
            "ol",
            {},
            text.after_frame.map((line) => h("li", { dir: "auto" }, line)),
          ),
        )
      : null,
  );
}

/** The rule and reader that read the letter or found none. */
function howRead(text) {
  const reader = text.reader ? ` of reader ${text.reader}` : "";
  if (!text.rule) return "No response to read";
  return [text.span ? "Read by rule " : "No letter read: rule ", h("code", {}, text.rule), reader];
}

function fold(title, content) {
  return h("details", {}, h("summary", {}, title), content);
}

/** Text of a model, with the characters of `span` marked and the number of characters cut. */
function modelText(text, span) {
  const { parts } = typeof text === "string" ? { parts: [{ start: 0, text }] } : text;
  const block = h("pre", { class: "model-text", dir: "auto", tabindex: 0 });
  for (const part of parts) {
    if (known(part.cut)) {
      block.append(
        h(
          "span",
          { class: "cut" },
          ` … ${count(part.cut)} characters left out to keep this page small … `,
        ),
      );
      continue;
    }
    const [from, to] = span ? [span[0] - part.start, span[1] - part.start] : [0, 0];
    if (span && to > 0 && from < part.text.length) {
      block.append(
        part.text.slice(0, Math.max(0, from)),
        h("mark", {}, part.text.slice(Math.max(0, from), to)),
        part.text.slice(to),
      );
    } else block.append(part.text);
  }
  return block;
}

/** Frames of each sampling, followed by the subtitle lines of each track. */
function sources(benchmark, details, index, shown) {
  const inputs = details.inputs?.[benchmark.questions.video[index]] ?? {};
  const seen = shown.filter((item) => inputs[item.input_key]);
  const names = (items) => items.map((item) => item.name).join(", ");
  return [...Map.groupBy(seen, (item) => item.sampling)]
    .filter(
      ([, items]) =>
        inputs[items[0].input_key].frames?.length || items.some((item) => item.subtitles),
    )
    .map(([sampling, items]) => {
      const { frames } = inputs[items[0].input_key];
      return h(
        "section",
        {},
        h(
          "h2",
          {},
          frames?.length ? plural(frames.length, "frame") : "Frames",
          h("small", { class: "beside" }, `${sampling}, seen by ${names(items)}`),
        ),
        frames?.length
          ? frameList(frames)
          : h("p", { class: "soft" }, "No frames were sent, or they are no longer stored."),
        [
          ...Map.groupBy(
            items.filter((item) => item.subtitles),
            (item) => item.input_key,
          ),
        ].map(([key, readers]) => subtitleLines(inputs[key], names(readers))),
      );
    });
}

function subtitleLines({ lines, lines_cut: cut }, names) {
  return [
    h(
      "h3",
      {},
      plural(lines.length + (cut ?? 0), "subtitle line"),
      h("small", { class: "beside" }, `sent to ${names}`),
    ),
    lines.length ? lineList(lines) : null,
    cut
      ? h("p", { class: "soft" }, `${plural(cut, "line")} left out to keep this page small.`)
      : null,
    lines.length || cut
      ? null
      : h("p", { class: "soft" }, "This video has no subtitles at these frames."),
  ];
}

function frameList(frames) {
  const pictured = frames.some((frame) => frame.thumbnail);
  return h(
    "ol",
    { class: pictured ? "frames" : "frames times-only" },
    frames.map((frame, place) =>
      h(
        "li",
        {},
        frame.thumbnail
          ? h("img", {
              src: frame.thumbnail,
              alt: `Frame ${place + 1} at ${clock(frame.seconds)}`,
              loading: "lazy",
            })
          : null,
        clock(frame.seconds),
      ),
    ),
  );
}

function lineList(lines) {
  return h(
    "ol",
    { class: "lines" },
    lines.map((line) =>
      h(
        "li",
        {},
        h(
          "span",
          { class: "times" },
          `${clock(line.start_seconds)} to ${clock(line.end_seconds)}`,
          known(line.frame) ? ` · frame ${line.frame + 1}` : "",
        ),
        h("span", { dir: "auto" }, line.text),
      ),
    ),
  );
}
