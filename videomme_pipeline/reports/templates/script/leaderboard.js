// The first view: which evaluation is best, is that real, and how it compares with published
// results.

function leaderboardView({ benchmark, params }) {
  const table = leaderboardTable(benchmark, params);
  return [
    h("ul", { class: "lead" }, verdict(benchmark).map((sentence) => h("li", {}, sentence))),
    heading("Evaluations", csvButton("evaluations", table), parquetButton(benchmark)),
    filterBox("Filter evaluations", params.get("q") ?? "", (text) => {
      amend({ q: text });
      table.replace(matching(benchmark.evaluations, text, evaluationWords));
    }),
    table.element,
    referenceNote(benchmark),
    ...besidePublished(benchmark, params),
  ];
}

/** The two or three sentences that answer the reader's first question. */
function verdict(benchmark) {
  const ranked = ordered(benchmark.evaluations.filter((item) => !item.baseline), mainScore, true);
  if (!ranked.length) return ["Only baselines have been evaluated so far."];
  const best = ranked[0];
  const sentences = [[
    ranked.length === 1 ? h("strong", {}, best.name) : ["Best: ", h("strong", {}, best.name)],
    ` with ${scoreText(benchmark, best)}.`,
  ]];
  const second = ranked[1];
  const difference = second && comparisonOf(benchmark, best.index, second.index);
  if (difference) sentences.push(leadSentence(benchmark, difference, second));
  const broken = benchmark.evaluations.filter((item) => item.failed > 0);
  if (broken.length) {
    sentences.push(`${plural(broken.reduce((sum, item) => sum + item.failed, 0), "question")} never answered in ${broken.map((item) => item.name).join(", ")}: not ready to be cited.`);
  }
  return sentences;
}

function scoreText(benchmark, evaluation) {
  const [value, low, high] = mainInterval(evaluation);
  const score = known(evaluation.group_score) ? `a group score of ${percent(value)}` : `${percent(value)} % accuracy`;
  const spread = known(low) ? ` (95 % interval ${interval(low, high)})` : "";
  return `${score}${spread} on ${plural(evaluation.questions, "question")}`;
}

function leadSentence(benchmark, { overall, a, b }, second) {
  const real = isReal(overall, true);
  return [
    `It leads ${second.name} by ${points(Math.abs(overall.difference)).replace("+", "")} points (${pointsInterval(overall)} paired): `,
    h("strong", {}, real ? "more than chance explains" : "not more than chance explains"),
    ". ", h("a", { href: link("compare", { a: benchmark.evaluations[a].name, b: benchmark.evaluations[b].name }) }, "Compare the two"), ".",
  ];
}

const mainScore = (evaluation) => evaluation.group_score ?? evaluation.accuracy;

function mainInterval(evaluation) {
  return known(evaluation.group_score)
    ? [evaluation.group_score, evaluation.group_low, evaluation.group_high]
    : [evaluation.accuracy, evaluation.low, evaluation.high];
}

function leaderboardTable(benchmark, params) {
  const has = (key) => benchmark.evaluations.some((item) => known(item[key]));
  const scale = NARROW_AXIS;
  const references = referenceValues(benchmark).map((item) => item.value);
  const columns = [
    { key: "name", title: "Evaluation", class: "name", value: (row) => row.name,
      cell: (row) => [
        h("a", { href: link("questions", { show: row.name, outcome: null }) }, row.name),
        h("small", {}, row.model, " · ", row.sampling, row.baseline ? " · baseline" : ""),
      ] },
    { key: "track", title: "Subtitles", value: (row) => row.track },
    has("group_score") && { key: "group_score", title: "Group score", number: true, value: (row) => row.group_score,
      cell: (row) => [h("span", { class: "strong" }, percent(row.group_score)), h("small", { class: "below" }, interval(row.group_low, row.group_high))], hint: "Published score of the four questions of a video together, 0 to 100" },
    { key: "accuracy", title: "Accuracy %", number: true, value: (row) => row.accuracy,
      cell: (row) => [h("span", { class: "strong" }, percent(row.accuracy)), h("small", { class: "below" }, interval(row.low, row.high))],
      hint: "Correct answers among all questions; an unreadable answer counts as wrong" },
    { key: "plot", title: "", class: "plot narrow", head: () => axisHead(scale), cell: (row) => {
      const [value, low, high] = mainInterval(row);
      return intervalPlot([{ value, low, high, series: 0, class: "series-5" }], scale, references);
    } },
    ...["short", "medium", "long"].map((duration) => benchmark.evaluations.some((item) => item.durations?.[duration]) && {
      key: duration, title: duration[0].toUpperCase() + duration.slice(1), number: true,
      value: (row) => row.durations?.[duration], cell: (row) => percent(row.durations?.[duration]) }),
    { key: "accuracy_of_answered", title: "Of answered %", number: true, value: (row) => row.accuracy_of_answered, cell: (row) => percent(row.accuracy_of_answered),
      hint: "Correct answers among the questions from which a letter was read: the official v1 denominator" },
    { key: "outcomes", title: "Outcomes", value: (row) => row.unreadable + row.failed, cell: outcomeCell },
    { key: "num_frames", title: "Frames", number: true, value: (row) => row.num_frames, cell: (row) => count(row.num_frames) },
    has("prompt_tokens") && { key: "tokens", title: "Tokens in / out", number: true, value: (row) => row.prompt_tokens, cell: (row) => `${count(row.prompt_tokens)} / ${count(row.completion_tokens)}` },
    has("cost_dollars") && { key: "cost", title: "Cost", number: true, value: (row) => row.cost_dollars, cell: (row) => dollars(row.cost_dollars) },
    has("latency_p50_seconds") && { key: "latency", title: "Latency", number: true, value: (row) => row.latency_p50_seconds, cell: (row) => seconds(row.latency_p50_seconds), hint: "Median over questions" },
    { key: "date", title: "Date", class: "nowrap", value: (row) => row.date, cell: (row) => day(row.date) },
    { key: "fingerprint", title: "Fingerprint", value: (row) => row.fingerprint, cell: (row) => h("code", {}, row.fingerprint.slice(0, 8)) },
  ].filter(Boolean);
  return dataTable({
    caption: `${plural(benchmark.evaluations.length, "evaluation")} of ${plural(benchmark.question_count, "question")} on ${plural(benchmark.video_count, "video")}`,
    columns, sticky: true, rows: matching(benchmark.evaluations, params.get("q") ?? "", evaluationWords),
    sort: params.get("sort") ?? (has("group_score") ? "-group_score" : "-accuracy"), onSort: (sort) => amend({ sort }),
    rowClass: (row) => (row.baseline ? "reference" : null),
  });
}

function outcomeCell(row) {
  const parts = Object.values(OUTCOMES).filter(({ name }) => row[name]).map(({ name, sign }) =>
    h("span", { class: "nowrap", title: `${row[name]} ${name}` }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "visually-hidden" }, name), ` ${count(row[name])} `));
  return [outcomeBar(row), h("small", {}, parts)];
}

const evaluationWords = (row) => [row.name, row.model, row.sampling, row.track, row.reader, row.template, row.fingerprint].join(" ");

function matching(rows, text, words) {
  const wanted = searchWords(text);
  return rows.filter((row) => { const held = words(row).toLowerCase(); return wanted.every((word) => held.includes(word)); });
}

function filterBox(label, text, oninput) {
  const input = h("input", { type: "search", value: text, autocomplete: "off", spellcheck: "false", oninput: (event) => oninput(event.target.value) });
  return h("div", { class: "controls" }, h("label", {}, label, input));
}

/** Chance and blind baselines: what is reached without looking. */
function referenceValues(benchmark) {
  const values = [];
  const grouped = benchmark.evaluations.some((item) => known(item.group_score));
  const chance = grouped ? benchmark.chance_group_score : benchmark.chance;
  if (known(chance)) values.push({ name: "guessing", value: chance });
  for (const item of benchmark.evaluations) if (item.baseline && known(mainScore(item))) values.push({ name: item.name, value: mainScore(item) });
  return values;
}

function referenceNote(benchmark) {
  const values = referenceValues(benchmark);
  if (!values.length) return null;
  return h("p", { class: "soft" }, "Dashed lines: ", values.map((item, index) => [index ? ", " : "", `${item.name} ${percent(item.value)}`]), ".");
}

/** Own evaluations and published results, without and with subtitles side by side. */
function besidePublished(benchmark, params) {
  const published = benchmark.published;
  const own = trackPairs(benchmark);
  const rows = published ? [...own, ...published.rows] : own;
  if (!published && !own.some((row) => known(row.overall.without) && known(row.overall.with))) return [];
  const parts = published?.parts ?? [["overall", "Overall"], ["short", "Short"], ["medium", "Medium"], ["long", "Long"]].filter(([key]) => own.some((row) => row[key]));
  const column = (part, title, track, label) => ({
    key: `${part}-${track}`, title: `${title}, ${label}`, number: true, value: (row) => row[part]?.[track], cell: (row) => percent(row[part]?.[track]) });
  const table = dataTable({
    caption: published ? `${published.measure}, without and with subtitles. Marked rows are published results, not made here.` : "Without and with subtitles",
    columns: [
      { key: "model", title: "Model", class: "name", value: (row) => row.model, cell: (row) => [h("span", {}, row.model), h("small", {}, row.published ? `published · ${row.parameters ?? row.kind ?? ""}` : "here")] },
      { key: "frames", title: "Frames", value: (row) => row.frames },
      ...parts.flatMap(([part, title]) => [column(part, title, "without", "without"), column(part, title, "with", "with")]),
      { key: "gain", title: "Gain", number: true, value: (row) => gain(row), cell: (row) => points(gain(row)), hint: "With minus without subtitles, overall, in points" },
      published && { key: "date", title: "Date", class: "nowrap", value: (row) => row.date, cell: (row) => day(row.date) },
    ].filter(Boolean),
    rows: matching(rows, params.get("beside") ?? "", (row) => `${row.model} ${row.published ? "published" : "here"} ${row.frames}`),
    sort: "-overall-without", sticky: true, rowClass: (row) => (row.published ? "reference" : "own"),
  });
  return [
    heading(published ? "Beside published results" : "Without and with subtitles", csvButton("published-and-own", table)),
    published && h("p", { class: "soft" }, "Source: ", published.source, ". ", published.note),
    filterBox("Filter models", params.get("beside") ?? "", (text) => {
      amend({ beside: text });
      table.replace(matching(rows, text, (row) => `${row.model} ${row.published ? "published" : "here"} ${row.frames}`));
    }),
    table.element,
  ];
}

const gain = (row) => (known(row.overall.without) && known(row.overall.with) ? row.overall.with - row.overall.without : null);

/** One row for evaluations that differ in nothing but the track. */
function trackPairs(benchmark) {
  const rows = new Map();
  for (const item of benchmark.evaluations) {
    const row = rows.get(item.track_pair) ?? { model: item.name, frames: String(item.num_frames ?? NONE), date: item.date };
    const track = item.subtitles ? "with" : "without";
    if (track === "without" || !row.overall) row.model = item.name;
    const parts = { overall: mainScore(item), ...item.durations, ...item.parts };
    for (const [part, value] of Object.entries(parts)) row[part] = { ...row[part], [track]: value };
    rows.set(item.track_pair, row);
  }
  return [...rows.values()];
}

function parquetButton(benchmark) {
  if (!benchmark.numbers_parquet) return null;
  return h("button", { type: "button", class: "plain link", onclick: () => {
    const bytes = Uint8Array.from(atob(benchmark.numbers_parquet), (character) => character.charCodeAt(0));
    download(`${benchmark.name}-numbers.parquet`, bytes, "application/vnd.apache.parquet");
  } }, "Parquet of all numbers");
}
