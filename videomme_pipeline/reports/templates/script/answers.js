// The answers of one model to a question: each response, how it was read, and what it cost.

import { link } from "./address.js";
import { outcomeMark, readAnswers } from "./data.js";
import { h } from "./dom.js";
import { count, dollars, known, plural, seconds } from "./format.js";

export function answerCard(benchmark, item, index, details) {
  const answers = readAnswers(benchmark.results[item.index][index]);
  const texts = details?.questions[index]?.answers?.[item.index] ?? [];
  const answerTo = (id, repeat) =>
    details.questions[benchmark.questions.id.indexOf(id)]?.answers[item.index][repeat];
  const [first, ...others] = texts.map((text, repeat) =>
    answerBlock(text, repeat, texts.length, answerTo),
  );
  return h(
    "article",
    { class: "answer" },
    h(
      "h3",
      {},
      h(
        "span",
        {},
        item.name,
        h("small", { class: "below" }, `${item.model} · ${item.sampling} · ${item.track}`),
      ),
      h(
        "span",
        {},
        answers.length ? answers.map(outcomeMark) : h("span", { class: "soft" }, "not asked"),
      ),
    ),
    first,
    others.length ? fold(plural(others.length, "more repeat"), others) : null,
  );
}

function answerBlock(text, repeat, total, answerTo) {
  return h(
    "div",
    {},
    total > 1 ? h("h4", {}, `Repeat ${repeat + 1} of ${total}`) : null,
    known(text.raw) ? modelText(text.raw, text.span, "model-text response") : null,
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
      ["Server", text.server],
    ]),
    text.judge ? fold("Response of the judge", modelText(text.judge)) : null,
    text.reasoning ? fold("Reasoning", modelText(text.reasoning)) : null,
    text.trace ? fold("Trace", modelText(text.trace)) : null,
    text.earlier?.length
      ? fold(
          `${plural(text.earlier.length, "earlier turn")} of the conversation, sent before this prompt`,
          text.earlier.map((id) => earlierTurn(id, answerTo(id, repeat))),
        )
      : null,
    text.system ? fold("System message", modelText(text.system)) : null,
    text.prompt ? fold("Prompt as sent", modelText(text.prompt)) : null,
    text.between_frames?.length > 1
      ? fold(
          "Texts between frames",
          h(
            "ol",
            {},
            text.between_frames.map((line) => h("li", { dir: "auto" }, line)),
          ),
        )
      : null,
  );
}

/** The prompt of an earlier question and the model's own answer to it. */
function earlierTurn(id, turn) {
  return [
    h("h4", {}, "Prompt of question ", h("a", { href: link("question", { id }) }, id)),
    turn?.prompt && modelText(turn.prompt),
    h("h4", {}, "Answer of the model"),
    turn?.raw && modelText(turn.raw),
  ];
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
function modelText(text, span, kind = "model-text") {
  const { parts } = typeof text === "string" ? { parts: [{ start: 0, text }] } : text;
  const block = h("pre", { class: kind, dir: "auto", tabindex: 0 });
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

export function factList(facts) {
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
