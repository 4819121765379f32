// Two evaluations against each other, question by question: B minus A.

import { go, link } from "./address.js";
import { differenceTable, isReal, pointsInterval } from "./breakdowns.js";
import { outcomeMark } from "./data.js";
import { h, select } from "./dom.js";
import { count, known, NONE, percent, plural, points, probability } from "./format.js";
import { mainScore } from "./leaderboard.js";
import { differenceAxis } from "./marks.js";
import { questionRows, rememberListing, walkRows } from "./questions.js";
import { csvButton, dataTable, heading, ordered } from "./tables.js";

export function compareView({ benchmark, params, details }) {
  if (benchmark.evaluations.length < 2)
    return [
      h(
        "p",
        { class: "notice" },
        "There is one evaluation so far. A second one of the same benchmark can be compared with it.",
      ),
    ];
  const { a, b } = chosenPair(benchmark, params);
  const options = benchmark.evaluations.map((item) => [item.name, item.name]);
  const turn = (changes) => go(link("compare", { a: a.name, b: b.name, ...changes }));
  const controls = h(
    "div",
    { class: "controls" },
    select("A, before", options, a.name, (name) => turn({ a: name })),
    select("B, after", options, b.name, (name) => turn({ b: name })),
    h("button", { type: "button", onclick: () => turn({ a: b.name, b: a.name }) }, "Swap A and B"),
  );
  if (a.index === b.index)
    return [controls, h("p", { class: "notice" }, "A and B are the same evaluation.")];
  const answers = (item) => (row) => row.answers[item.index];
  const text = (item) => (row) => details?.questions[row.index]?.answers?.[item.index]?.[0];
  const flips = flipSections(
    benchmark,
    details,
    {
      before: answers(a),
      after: answers(b),
      beforeTitle: a.name,
      afterTitle: b.name,
      beforeText: text(a),
      afterText: text(b),
      show: `${a.name},${b.name}`,
    },
    params.get("flips"),
    (key) => turn({ flips: key }),
  );
  return [
    controls,
    ...verdictOf(benchmark, a, b),
    ...specificationSection(a, b),
    ...flips,
    ...differenceSection(benchmark, a, b),
  ];
}

function chosenPair(benchmark, params) {
  const named = (name) => benchmark.evaluations.find((item) => item.name === name);
  const ranked = ordered(
    benchmark.evaluations.filter((item) => !item.baseline),
    mainScore,
    true,
  );
  const fallback = ranked.length > 1 ? ranked : ordered(benchmark.evaluations, mainScore, true);
  return { a: named(params.get("a")) ?? fallback[1], b: named(params.get("b")) ?? fallback[0] };
}

/** The comparison of evaluations `from` and `to`, turned so that it is `to` minus `from`. */
export function comparisonOf(benchmark, to, from) {
  const held = benchmark.comparisons.find(
    (item) => (item.a === from && item.b === to) || (item.a === to && item.b === from),
  );
  if (!held || (held.a === from && held.b === to)) return held;
  const turn = (row) => ({
    ...row,
    difference: negative(row.difference),
    low: negative(row.high),
    high: negative(row.low),
  });
  return {
    ...held,
    a: from,
    b: to,
    overall: turn(held.overall),
    marginals: held.marginals.map(turn),
  };
}

const negative = (value) => (known(value) ? -value : value);

/** Which of the two is better, and whether that is real. */
function verdictOf(benchmark, a, b) {
  const comparison = comparisonOf(benchmark, b.index, a.index);
  if (!comparison) {
    return [
      h(
        "p",
        { class: "notice" },
        "This pair is not worked out in this page, which holds the pairs with the best evaluation. ",
        h("code", {}, `videomme compare ${b.name} ${a.name}`),
        " does it. The questions where they differ are below.",
      ),
    ];
  }
  const { overall } = comparison;
  return [
    h(
      "ul",
      { class: "lead" },
      h("li", {}, differenceSentence(overall, (overall.difference > 0 ? b : a).name)),
      h(
        "li",
        { class: "soft" },
        `${percent(comparison.flip_rate)} % of the answers changed`,
        comparison.failed
          ? `; ${plural(comparison.failed, "question")} without an answer on one side ${comparison.failed === 1 ? "is" : "are"} left out`
          : "",
        ".",
      ),
    ),
  ];
}

/** "x is better by 9.7 points …", or that no difference is shown. */
function differenceSentence(overall, better) {
  const start = isReal(overall, true)
    ? [
        h("strong", {}, better),
        ` is better by ${points(Math.abs(overall.difference)).replace("+", "")} points`,
      ]
    : [h("strong", {}, "No real difference is shown"), `: ${points(overall.difference)} points`];
  return [
    start,
    ` of ${overall.by.toLowerCase()} (95 % interval ${pointsInterval(overall)}, p ${probability(overall.p)}, ${plural(overall.n, overall.by === "Accuracy" ? "question" : "group")} that both answered).`,
  ];
}

/** The paired difference of every part; those that are real come first. */
function differenceSection(benchmark, a, b) {
  const comparison = comparisonOf(benchmark, b.index, a.index);
  if (!comparison) return [];
  const { overall } = comparison;
  const marginals = ordered(comparison.marginals, (row) => row.p, false);
  const real = marginals.filter((row) => row.significant).length;
  const table = differenceTable({
    label: `${b.name} minus ${a.name} in points, paired and clustered by video. ${real ? plural(real, "part is", "parts are") : "No part is"} real after Benjamini–Hochberg over ${count(marginals.length)}`,
    rows: [overall, ...marginals],
    scale: differenceAxis([overall, ...marginals]),
    marked: true,
    step: 15,
  });
  return [
    heading("Where they differ", csvButton(`compare-${a.name}-${b.name}`, table)),
    table.element,
  ];
}

/** What differs in the specification, value by value. */
function specificationSection(a, b) {
  const all = [...new Set([...Object.keys(a.spec), ...Object.keys(b.spec)])];
  const differs = (path) => JSON.stringify(a.spec[path]) !== JSON.stringify(b.spec[path]);
  const hasParts = (path) => all.some((other) => other.startsWith(`${path}.`)); // nothing here, several values there
  const paths = all.filter((path) => differs(path) && !hasParts(path));
  const text = (value) =>
    value === undefined ? NONE : typeof value === "string" ? value : JSON.stringify(value);
  const body = paths.length
    ? dataTable({
        label: "Values that are not the same",
        step: Infinity,
        rows: paths.map((path) => ({ path })),
        columns: [
          {
            key: "path",
            title: "Value",
            class: "name",
            value: (row) => row.path,
            cell: (row) => h("code", {}, row.path),
          },
          { key: "a", title: a.name, value: (row) => text(a.spec[row.path]) },
          { key: "b", title: b.name, value: (row) => text(b.spec[row.path]) },
        ],
      }).element
    : h("p", {}, "Nothing: the two were made with the same values.");
  return [h("h2", {}, "What differs in the specification"), body];
}

const FLIPS = [
  ["lost", "Right before, not right now"],
  ["won", "Not right before, right now"],
  ["other", "Wrong in another way"],
  ["failed", "Never answered on one side"],
  ["all", "All that differ"],
];

/**
 * The questions that fared otherwise, side by side. `sides` says how to get at both: before(row)
 * and after(row) are answers, beforeText(row) and afterText(row) what was said.
 */
export function flipSections(benchmark, details, sides, wanted, onchange) {
  const rows = questionRows(benchmark, details)
    .map((row) => ({ ...row, flip: flipOf(sides.before(row), sides.after(row)) }))
    .filter((row) => row.flip);
  const tally = Object.fromEntries(
    FLIPS.map(([key]) => [key, rows.filter((row) => key === "all" || row.flip === key).length]),
  );
  const chosen = wanted ?? (tally.lost ? "lost" : "all");
  const texts = details?.questions.some((item) => item.question);
  const side = (key, title, answers, text) => ({
    key,
    title,
    class: "side-by-side",
    headClass: "own-name",
    value: (row) =>
      answers(row)
        .map((one) => `${one.name} ${one.letter}`)
        .join(" "),
    cell: (row) => [answers(row).map(outcomeMark), " ", excerpt(text(row))],
  });
  const table = dataTable({
    label: `${plural(tally[chosen], "question")}: ${FLIPS.find(([key]) => key === chosen)[1].toLowerCase()}`,
    rows: rows.filter((row) => chosen === "all" || row.flip === chosen),
    sticky: true,
    step: 25,
    columns: [
      {
        key: "id",
        title: "Question",
        class: "id",
        value: (row) => row.id,
        cell: (row) => h("a", { href: link("question", { id: row.id, show: sides.show }) }, row.id),
      },
      texts && {
        key: "text",
        title: "Text",
        class: "text",
        value: (row) => details.questions[row.index].question,
        cell: (row) =>
          h("span", { class: "clip", dir: "auto" }, details.questions[row.index].question),
      },
      { key: "answer", title: "Right", value: (row) => row.answer },
      {
        key: "flip",
        title: "Change",
        class: "nowrap",
        value: (row) => row.flip,
        cell: (row) =>
          h(
            "span",
            { class: { won: "better", lost: "worse" }[row.flip] },
            { won: "▲ won", lost: "▼ lost", other: "◇ other", failed: "! failed" }[row.flip],
          ),
      },
      side("before", sides.beforeTitle, sides.before, sides.beforeText),
      side("after", sides.afterTitle, sides.after, sides.afterText),
    ].filter(Boolean),
  });
  table.element.addEventListener("keydown", walkRows);
  rememberListing({
    rows: table.sorted,
    benchmark: benchmark.name,
    address: location.hash || link("compare"),
  });
  const control = select(
    "Show",
    FLIPS.filter(([key]) => tally[key] || key === chosen).map(([key, title]) => [
      key,
      `${title} (${count(tally[key])})`,
    ]),
    chosen,
    onchange,
  );
  if (!tally.all)
    return [
      h("h2", {}, "Questions that differ"),
      h("p", {}, "None: every question was answered with the same letter."),
    ];
  return [
    heading("Questions that differ", csvButton("flips", table)),
    h("div", { class: "controls" }, control),
    table.element,
  ];
}

/** How a question changed; null when it fared the same and was read the same. */
function flipOf(before, after) {
  if (!before.length || !after.length) return null;
  const failed = (answers) => answers.some((answer) => answer.name === "failed");
  if (failed(before) !== failed(after)) return "failed";
  const share = (answers) =>
    answers.filter((answer) => answer.name === "correct").length / answers.length;
  if (share(after) > share(before)) return "won";
  if (share(after) < share(before)) return "lost";
  const text = (answers) => answers.map((answer) => answer.name + answer.letter).join(" ");
  return text(before) === text(after) ? null : "other";
}

/** The beginning of what was said; `text` is an answer of the details, or its text alone. */
function excerpt(text) {
  if (!text) return null;
  const whole = typeof text === "string" || text.parts ? text : (text.raw ?? text.error);
  if (!known(whole)) return null;
  const start =
    typeof whole === "string" ? whole : whole.parts.map((part) => part.text ?? " … ").join("");
  return start.trim().length > 2
    ? h("span", { class: "clip soft", dir: "auto" }, start.slice(0, 240))
    : null; // the letter alone stands there already
}
