// Two evaluations against each other, question by question: B minus A.

function compareView({ benchmark, params, details }) {
  if (benchmark.evaluations.length < 2) return [h("p", { class: "notice" }, "There is one evaluation so far. A second one of the same benchmark can be compared with it.")];
  const { a, b } = chosenPair(benchmark, params);
  const options = benchmark.evaluations.map((item) => [item.name, item.name]);
  const turn = (changes) => go(link("compare", { a: a.name, b: b.name, ...changes }));
  const controls = h("div", { class: "controls" },
    select("A, before", options, a.name, (name) => turn({ a: name })),
    select("B, after", options, b.name, (name) => turn({ b: name })),
    h("button", { type: "button", onclick: () => turn({ a: b.name, b: a.name }) }, "Swap A and B"));
  if (a.index === b.index) return [controls, h("p", { class: "notice" }, "A and B are the same evaluation.")];
  return [controls, ...differenceSections(benchmark, a, b), ...specificationSection(a, b), ...flipSections(benchmark, details, a, b, params)];
}

function chosenPair(benchmark, params) {
  const named = (name) => benchmark.evaluations.find((item) => item.name === name);
  const ranked = ordered(benchmark.evaluations.filter((item) => !item.baseline), mainScore, true);
  const fallback = ranked.length > 1 ? ranked : ordered(benchmark.evaluations, mainScore, true);
  return { a: named(params.get("a")) ?? fallback[1], b: named(params.get("b")) ?? fallback[0] };
}

/** The comparison of evaluations `from` and `to`, turned so that it is `to` minus `from`. */
function comparisonOf(benchmark, to, from) {
  const held = benchmark.comparisons.find((item) => (item.a === from && item.b === to) || (item.a === to && item.b === from));
  if (!held || (held.a === from && held.b === to)) return held;
  const turn = (row) => ({ ...row, difference: negative(row.difference), low: negative(row.high), high: negative(row.low) });
  return { ...held, a: from, b: to, overall: turn(held.overall), marginals: held.marginals.map(turn) };
}

const negative = (value) => (known(value) ? -value : value);

function differenceSections(benchmark, a, b) {
  const comparison = comparisonOf(benchmark, b.index, a.index);
  if (!comparison) {
    return [h("p", { class: "notice" }, "This pair is not worked out in this page, which holds the pairs with the best evaluation. ",
      h("code", {}, `videomme compare ${a.name} ${b.name}`), " does it. The questions where they differ are below.")];
  }
  const { overall } = comparison;
  const better = overall.difference > 0 ? b : a;
  const real = isReal(overall, true);
  const scale = differenceAxis([overall, ...comparison.marginals]);
  const table = differenceTable({ caption: `${b.name} minus ${a.name} in points, paired and clustered by video; every p-value but the first is adjusted for the number of rows`,
    rows: [overall, ...comparison.marginals], scale, marked: true });
  return [
    h("ul", { class: "lead" },
      h("li", {}, real
        ? [h("strong", {}, better.name), ` is better by ${points(Math.abs(overall.difference)).replace("+", "")} points`]
        : [h("strong", {}, "No real difference is shown"), `: ${points(overall.difference)} points`],
      ` of ${overall.by.toLowerCase()} (95 % interval ${pointsInterval(overall)}, p ${probability(overall.p)}, ${plural(overall.n, overall.by === "Accuracy" ? "question" : "group")} that both answered).`),
      h("li", { class: "soft" }, `${percent(comparison.flip_rate)} % of the answers changed`, comparison.failed ? `; ${plural(comparison.failed, "question")} without an answer on one side ${comparison.failed === 1 ? "is" : "are"} left out` : "", ".")),
    heading("Difference", csvButton(`compare-${a.name}-${b.name}`, table)), table.element,
  ];
}

/** What differs in the specification, value by value. */
function specificationSection(a, b) {
  const paths = [...new Set([...Object.keys(a.spec), ...Object.keys(b.spec)])].filter((path) => JSON.stringify(a.spec[path]) !== JSON.stringify(b.spec[path]));
  const text = (value) => (value === undefined ? NONE : typeof value === "string" ? value : JSON.stringify(value));
  const body = paths.length
    ? dataTable({ caption: "Values that are not the same", steps: false, rows: paths.map((path) => ({ path })), columns: [
      { key: "path", title: "Value", class: "name", value: (row) => row.path, cell: (row) => h("code", {}, row.path) },
      { key: "a", title: a.name, value: (row) => text(a.spec[row.path]) },
      { key: "b", title: b.name, value: (row) => text(b.spec[row.path]) },
    ] }).element
    : h("p", {}, "Nothing: the two were made with the same values.");
  return [h("h2", {}, "What differs in the specification"), body];
}

const FLIPS = [
  ["lost", "Right before, not right now"], ["won", "Not right before, right now"],
  ["other", "Wrong in another way"], ["failed", "Never answered on one side"], ["all", "All that differ"],
];

function flipSections(benchmark, details, a, b, params) {
  const rows = questionRows(benchmark, details).map((row) => ({ ...row, flip: flipOf(row, a, b) })).filter((row) => row.flip);
  const tally = Object.fromEntries(FLIPS.map(([key]) => [key, rows.filter((row) => key === "all" || row.flip === key).length]));
  const chosen = params.get("flips") ?? (tally.lost ? "lost" : "all");
  const texts = details?.questions.some((item) => item.question);
  const answer = (item) => ({ key: item.name, title: item.name, class: "side-by-side", value: (row) => row.answers[item.index].map((one) => `${one.name} ${one.letter}`).join(" "),
    cell: (row) => [row.answers[item.index].map(outcomeMark), excerpt(details?.questions[row.index]?.answers?.[item.index]?.[0])] });
  const table = dataTable({
    caption: `${plural(tally[chosen], "question")}: ${FLIPS.find(([key]) => key === chosen)[1].toLowerCase()}`,
    rows: rows.filter((row) => chosen === "all" || row.flip === chosen), sticky: true,
    rowClass: (row) => row.flip,
    columns: [
      { key: "id", title: "Question", class: "nowrap", value: (row) => row.id, cell: (row) => h("a", { href: link("question", { id: row.id, show: `${a.name},${b.name}` }) }, row.id) },
      texts && { key: "text", title: "Text", class: "text", value: (row) => details.questions[row.index].question, cell: (row) => h("span", { class: "clip", dir: "auto" }, details.questions[row.index].question) },
      { key: "answer", title: "Right", value: (row) => row.answer },
      { key: "flip", title: "Change", value: (row) => row.flip, cell: (row) => h("span", { class: { won: "better", lost: "worse" }[row.flip] }, { won: "▲ won", lost: "▼ lost", other: "◇ other", failed: "! failed" }[row.flip]) },
      answer(a), answer(b),
    ].filter(Boolean),
  });
  table.element.addEventListener("keydown", walkRows);
  listing = { rows: table.sorted, benchmark: benchmark.name, address: location.hash || link("compare") };
  const control = select("Show", FLIPS.map(([key, title]) => [key, `${title} (${count(tally[key])})`]), chosen,
    (key) => go(link("compare", { a: a.name, b: b.name, flips: key })));
  return [heading("Questions that differ", csvButton("flips", table)), h("div", { class: "controls" }, control), table.element];
}

/** How a question changed from `a` to `b`; null when it fared the same and was read the same. */
function flipOf(row, a, b) {
  const [before, after] = [row.answers[a.index], row.answers[b.index]];
  if (!before.length || !after.length) return null;
  const failed = (answers) => answers.some((answer) => answer.name === "failed");
  if (failed(before) !== failed(after)) return "failed";
  const share = (answers) => answers.filter((answer) => answer.name === "correct").length / answers.length;
  if (share(after) > share(before)) return "won";
  if (share(after) < share(before)) return "lost";
  const text = (answers) => answers.map((answer) => answer.name + answer.letter).join(" ");
  return text(before) === text(after) ? null : "other";
}

function excerpt(text) {
  if (!text) return null;
  const whole = text.raw ?? text.error;
  if (!known(whole)) return null;
  const start = typeof whole === "string" ? whole : whole.parts.map((part) => part.text ?? " … ").join("");
  return h("span", { class: "clip soft", dir: "auto" }, start.slice(0, 240));
}
