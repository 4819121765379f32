// The leaderboard: the best evaluation, the significance of its lead, and published results.

import { amend, link } from "./address.js";
import { citationBox } from "./cite.js";
import { OUTCOMES } from "./data.js";
import { checkbox, h, jumpTo, select } from "./dom.js";
import {
  atLeast,
  compact,
  count,
  day,
  dollars,
  interval,
  known,
  NONE,
  percent,
  plural,
  points,
  scoreText,
  seconds,
} from "./format.js";
import { nightlySentence } from "./history.js";
import { axisHead, intervalPlot, outcomeBar, referenceKey, zoomedAxis } from "./marks.js";
import { matrixSections } from "./matrix.js";
import { repeatsSection } from "./repeats.js";
import { scatterSection } from "./scatter.js";
import { searchWords } from "./questions.js";
import { exportButtons } from "./exports.js";
import { dataTable, heading, lowerBoundColumn, numberColumn, ordered } from "./tables.js";
import { comparisonOf, isSignificant, pointsInterval } from "./differences.js";
import {
  byTrack,
  isBlocked,
  isGrouped,
  mainInterval,
  mainScore,
  referenceValues,
  trackTitle,
} from "./scores.js";

const FIRST_ROWS = 25;
const CITATION_SECTION = "citation";

export function leaderboardView({ benchmark, params }) {
  const criteria = {
    q: params.get("q") ?? "",
    track: params.get("track") ?? "",
    published: params.get("published") ?? "",
  };
  const tables = [leaderboardTable(benchmark, params), tracksTable(benchmark)].filter(Boolean);
  const filter = () => {
    for (const table of tables) table.filter(criteria);
  };
  const refresh = (changes) => {
    Object.assign(criteria, changes);
    amend(changes);
    filter();
  };
  filter();
  const [board, tracks] = tables;
  const citation = citationTable(benchmark);
  return [
    h(
      "ul",
      { class: "lead" },
      summarySentences(benchmark).map((sentence) => h("li", {}, sentence)),
    ),
    heading("Evaluations", exportButtons("evaluations", board, paperColumns(benchmark))),
    h(
      "div",
      { class: "controls" },
      leaderboardControls(benchmark, criteria, refresh),
      referenceLegend(benchmark),
    ),
    board.element,
    matrixSections(benchmark),
    scatterSection(benchmark, params),
    citationBox(benchmark, params),
    citation &&
      h(
        "section",
        { id: CITATION_SECTION, tabindex: -1 },
        heading("What to know before citing", exportButtons("citation", citation)),
        citation.element,
      ),
    repeatsSection(benchmark),
    benchmark.published && publishedNote(benchmark.published),
    tracks && [
      heading("Without and with subtitles", exportButtons("without-and-with-subtitles", tracks)),
      tracks.element,
    ],
  ];
}

function leaderboardControls(benchmark, criteria, refresh) {
  const search = h("input", {
    type: "search",
    value: criteria.q,
    autocomplete: "off",
    spellcheck: "false",
    oninput: (event) => refresh({ q: event.target.value }),
  });
  const published = publishedRows(benchmark).length;
  return [
    h("label", {}, "Filter", search),
    select(
      "Subtitles",
      [
        ["", "With and without"],
        ["without", "Without"],
        ["with", "With"],
      ],
      criteria.track,
      (track) => refresh({ track }),
    ),
    published > 0 &&
      checkbox(
        `Published results (${count(published)})`,
        criteria.published !== "hidden",
        (checked) => refresh({ published: checked ? "" : "hidden" }),
      ),
  ];
}

/** Sentences about the best evaluation of each track, its lead and problems. */
function summarySentences(benchmark) {
  const evaluations = benchmark.evaluations.filter((item) => !item.baseline);
  if (!evaluations.length) return ["Only baselines have been evaluated so far."];
  const tracks = byTrack(evaluations);
  const sentences = tracks.flatMap(([title, items]) =>
    trackSentences(benchmark, tracks.length > 1 && title, items),
  );
  const nightly = nightlySentence(benchmark);
  if (nightly) sentences.push(h("span", { class: "soft" }, nightly));
  const blocked = benchmark.evaluations.filter(isBlocked);
  if (blocked.length) {
    const names = blocked.map((item) => item.name).join(", ");
    const showReasons = () => jumpTo(document.getElementById(CITATION_SECTION));
    sentences.push([
      `Do not cite ${names}. `,
      h(
        "button",
        { type: "button", class: "plain link", onclick: showReasons },
        "Show the reasons",
      ),
    ]);
  }
  return sentences;
}

/** Sentences about the evaluations of one track. `title` is null if the benchmark has one track. */
function trackSentences(benchmark, title, evaluations) {
  const [best, second] = ordered(evaluations, mainScore, true);
  const start = [second && "best", title].filter(Boolean).join(" ");
  const sentences = [
    [
      start && `${start[0].toUpperCase()}${start.slice(1)}: `,
      h("strong", {}, best.name),
      ` with ${scoreSentence(best)}.`,
    ],
  ];
  const difference = second && comparisonOf(benchmark, best.index, second.index);
  if (difference) sentences.push(leadSentence(benchmark, difference, second));
  const among = amongPublished(benchmark, best);
  if (among) sentences.push(h("span", { class: "soft" }, among));
  return sentences;
}

const CITATION = {
  blocked: { title: "do not cite", class: "worse" },
  warning: { title: "mention", class: null },
  unknown: { title: "unknown", class: "soft" },
};

/** Everything that is not ok: what blocks a citation, what to mention, and what is unknown. */
function citationTable(benchmark) {
  const rows = benchmark.evaluations.flatMap((item) =>
    item.findings.map((finding) => ({ name: item.name, ...finding })),
  );
  if (!rows.length) return null;
  return dataTable({
    label: "Checks of what may be cited that are not ok",
    rows,
    step: FIRST_ROWS,
    columns: [
      { key: "name", title: "Evaluation", class: "name", value: (row) => row.name },
      {
        key: "status",
        title: "Citation",
        class: "nowrap",
        value: (row) => row.status,
        cell: (row) => h("span", { class: CITATION[row.status].class }, CITATION[row.status].title),
      },
      { key: "check", title: "Check", class: "nowrap", value: (row) => row.check_name },
      { key: "found", title: "Found", class: "text", value: (row) => row.summary },
      { key: "advice", title: "What to do", class: "text", value: (row) => row.advice },
    ],
  });
}

function scoreSentence(evaluation) {
  const [value, low, high] = mainInterval(evaluation);
  if (!known(value)) return `no answer to ${plural(evaluation.questions, "question")}`;
  const shown = atLeast(evaluation.failed, percent(value));
  const score = known(evaluation.group_score)
    ? `a group score of ${shown}`
    : `${shown}% ${evaluation.mean ? "mean accuracy" : "accuracy"}`;
  const spread = known(low) ? ` (95% CI ${interval(low, high)})` : "";
  return `${score}${spread} on ${plural(evaluation.questions, "question")}`;
}

function leadSentence(benchmark, { overall, a, b }, second) {
  const real = isSignificant(overall, true);
  const lead = points(Math.abs(overall.difference)).replace("+", "");
  const isTied = Number(lead) === 0;
  return [
    isTied ? `It ties with ${second.name} ` : `It leads ${second.name} by ${lead} points `,
    `(paired 95% CI ${pointsInterval(overall)})`,
    !isTied && [": ", h("strong", {}, real ? "significant" : "not significant")],
    ". ",
    h(
      "a",
      {
        href: link("compare", {
          a: benchmark.evaluations[a].name,
          b: benchmark.evaluations[b].name,
        }),
      },
      "Compare the two",
    ),
    ".",
  ];
}

/** Sentence with the number of published results of the same track that are better. */
function amongPublished(benchmark, best) {
  if (!benchmark.published || !best.complete || best.failed || best.audio || best.conversation)
    return null;
  const score = known(best.group_score) ? best.group_score : best.accuracy_of_answered;
  const rivals = publishedRows(benchmark).filter((row) => row.with_subtitles === best.subtitles);
  const track = best.subtitles ? "with subtitles" : "without subtitles";
  const above = rivals.filter((row) => row.main > score).length;
  return `Of ${count(rivals.length)} published results ${track}, ${count(above)} ${above === 1 ? "is" : "are"} better.`;
}

function leaderboardTable(benchmark, params) {
  const grouped = isGrouped(benchmark);
  const has = (key) => benchmark.evaluations.some((item) => known(item[key]));
  const scale = scoreAxis(benchmark);
  const references = referenceValues(benchmark);
  const small = (...content) => h("small", { class: "below" }, content);
  const score = (key) => (row) => [
    h("span", { class: "strong" }, atLeast(row.failed, percent(row[key]))),
    row.published ? null : small(interval(row[`${key}_low`], row[`${key}_high`])),
  ];
  const columns = [
    { key: "name", title: "Evaluation", class: "name", value: (row) => row.name, cell: nameCell },
    {
      key: "kind",
      title: "Kind",
      csvOnly: true,
      value: (row) => (row.published ? "published" : row.baseline ? "baseline" : "evaluation"),
    },
    { key: "track", title: "Subtitles", class: "nowrap", fold: 1, value: (row) => row.track },
    grouped && {
      key: "group_score",
      title: "Group score",
      number: true,
      value: (row) => row.group_score,
      cell: score("group_score"),
      hint: "Score of the four questions of a video together, from 0 to 100",
    },
    benchmark.mean_title && {
      key: "mean",
      title: benchmark.mean_title,
      number: true,
      value: (row) => row.mean?.value,
      cell: (row) => [
        h("span", { class: "strong" }, atLeast(row.failed, percent(row.mean?.value))),
        row.mean ? small(interval(row.mean.low, row.mean.high)) : null,
      ],
    },
    {
      key: "accuracy",
      title: "Accuracy (%)",
      number: true,
      fold: grouped || benchmark.mean_title ? 5 : 0,
      value: (row) => row.accuracy,
      cell: grouped ? (row) => atLeast(row.failed, percent(row.accuracy)) : score("accuracy"),
      hint: "Correct answers among all questions. Unreadable and failed ones count as wrong",
    },
    lowerBoundColumn((row) => row.failed),
    {
      key: "low",
      title: "Low",
      csvOnly: true,
      value: (row) => (row.published ? null : mainInterval(row)[1]),
    },
    {
      key: "high",
      title: "High",
      csvOnly: true,
      value: (row) => (row.published ? null : mainInterval(row)[2]),
    },
    {
      key: "plot",
      title: "",
      class: "plot narrow",
      head: () => axisHead(scale),
      cell: (row) => {
        const [value, low, high] = row.published ? [row.main] : mainInterval(row);
        return intervalPlot(
          [
            {
              value,
              low,
              high,
              series: row.published ? 1 : 0,
              class: row.published ? "published" : "series-5",
            },
          ],
          scale,
          references,
        );
      },
    },
    ...benchmark.part_columns.map(
      ([part, title]) =>
        benchmark.evaluations.some((item) => known(item.parts?.[part])) && {
          key: part,
          title,
          number: true,
          fold: 7,
          value: (row) => row.parts?.[part],
          cell: (row) => atLeast(row.failed, percent(row.parts?.[part])),
        },
    ),
    !grouped &&
      numberColumn(
        "accuracy_of_answered",
        "Of answered (%)",
        (row) => row.accuracy_of_answered,
        percent,
        {
          fold: 9,
          hint: "Correct answers among the questions with a readable answer, as in the official Video-MME script",
        },
      ),
    {
      key: "outcomes",
      title: "Outcomes",
      fold: 3,
      value: (row) => (row.published ? null : row.unreadable + row.failed),
      cell: (row) => (row.published ? NONE : outcomeCell(row)),
    },
    ...Object.values(OUTCOMES).map(({ name }) => ({
      key: name,
      title: name,
      csvOnly: true,
      value: (row) => row[name],
    })),
    { key: "citation", title: "Citation", csvOnly: true, value: (row) => row.citation },
    {
      key: "num_frames",
      title: "Frames",
      number: true,
      fold: 6,
      value: (row) => row.frames,
      cell: (row) => (typeof row.frames === "string" ? row.frames : count(row.frames)),
    },
    has("prompt_tokens") && {
      key: "tokens",
      title: "Tokens",
      number: true,
      fold: 4,
      value: (row) => row.prompt_tokens,
      hint: "Prompt + completion tokens. Below: share of prompt tokens read from a cache",
      cell: (row) =>
        known(row.prompt_tokens)
          ? [
              `${compact(row.prompt_tokens)} + ${compact(row.completion_tokens)}`,
              known(row.cached_tokens) ? small(`${percent(cachedShare(row), 0)}% cached`) : null,
            ]
          : NONE,
    },
    has("completion_tokens") && {
      key: "completion_tokens",
      title: "Tokens out",
      csvOnly: true,
      value: (row) => row.completion_tokens,
    },
    has("cached_tokens") && {
      key: "cached",
      title: "Cached share",
      csvOnly: true,
      value: cachedShare,
    },
    has("cost_dollars") && {
      key: "cost",
      title: "Cost",
      number: true,
      fold: 2,
      value: (row) => row.cost_dollars,
      cell: (row) => [
        dollars(row.cost_dollars),
        known(row.cost_dollars) ? small(`${dollars(row.cost_dollars / row.responses)} each`) : null,
      ],
    },
    has("latency_p50_seconds") && {
      key: "latency",
      title: "Latency",
      number: true,
      fold: 5,
      value: (row) => row.latency_p50_seconds,
      hint: "Median over questions. Below: 95th percentile",
      cell: (row) => [
        seconds(row.latency_p50_seconds),
        known(row.latency_p95_seconds) ? small(`p95 ${seconds(row.latency_p95_seconds)}`) : null,
      ],
    },
    has("latency_p95_seconds") && {
      key: "latency_p95",
      title: "Latency p95",
      csvOnly: true,
      value: (row) => row.latency_p95_seconds,
    },
    {
      key: "date",
      title: "Date",
      class: "nowrap",
      fold: 8,
      value: (row) => row.answered_at,
      cell: (row) => [
        day(row.answered_at),
        row.fingerprint
          ? h(
              "small",
              { class: "below", title: "Fingerprint of everything that can change the score" },
              h("code", {}, row.fingerprint.slice(0, 8)),
            )
          : null,
      ],
    },
    { key: "fingerprint", title: "Fingerprint", csvOnly: true, value: (row) => row.fingerprint },
  ].filter(Boolean);
  const rows = [...benchmark.evaluations, ...publishedRows(benchmark)];
  const tracks = byTrack(benchmark.evaluations).map(([title]) => title);
  const table = dataTable({
    label: "Evaluations",
    columns,
    sticky: true,
    rows,
    step: FIRST_ROWS,
    groups: {
      of: (row) => (row.published ? tracks.length : tracks.indexOf(trackTitle(row))),
      titles: [
        ...(tracks.length > 1
          ? tracks.map((title) => title[0].toUpperCase() + title.slice(1))
          : [null]),
        "Published results",
      ],
    },
    sort:
      params.get("sort") ??
      (grouped ? "-group_score" : benchmark.mean_title ? "-mean" : "-accuracy"),
    onSort: (sort) => amend({ sort }),
    rowClass: (row) => (row.published ? "published" : row.baseline ? "reference" : null),
  });
  table.filter = (criteria) => {
    const selected = filtered(rows, criteria, evaluationWords, (row) =>
      row.published ? row.with_subtitles : row.subtitles,
    );
    const evaluations = selected.filter((row) => !row.published).length;
    const published = selected.length - evaluations;
    table.replace(
      selected,
      `${plural(evaluations, "evaluation")} of ${plural(benchmark.question_count, "question")} ` +
        `on ${plural(benchmark.video_count, "video")}, with 95% CIs clustered by video` +
        (published ? `; ${plural(published, "published result")}` : ""),
    );
  };
  return table;
}

/** The columns of a table in a paper, with one value in each cell. */
function paperColumns(benchmark) {
  const score = isGrouped(benchmark) ? "Group score" : (benchmark.mean_title ?? "Accuracy (%)");
  return [
    { title: "Evaluation", value: (row) => row.name },
    {
      title: "Subtitles",
      value: (row) => ((row.published ? row.with_subtitles : row.subtitles) ? "with" : "without"),
    },
    {
      title: score,
      number: true,
      cell: (row) => atLeast(row.failed, percent(row.published ? row.main : mainScore(row))),
    },
    {
      title: "95% CI",
      number: true,
      cell: (row) => (row.published ? NONE : interval(...mainInterval(row).slice(1))),
    },
    { title: "n", number: true, cell: (row) => count(row.published ? null : row.questions) },
  ];
}

function nameCell(row) {
  if (row.published)
    return [
      h("span", {}, row.name),
      h("small", {}, ["published", row.note].filter(Boolean).join(" · ")),
    ];
  return [
    h("a", { href: link("questions", { show: row.name, outcome: null }) }, row.name),
    h(
      "small",
      {},
      row.model,
      " · ",
      row.sampling,
      row.baseline ? " · baseline" : "",
      row.complete
        ? ""
        : ` · ${count(row.questions)} of ${plural(row.benchmark_questions, "question")}`,
      isBlocked(row) ? [" · ", h("span", { class: "worse nowrap" }, "! do not cite")] : null,
    ),
    row.judge
      ? h(
          "small",
          {},
          `judge ${row.judge} read ${plural(row.judge_letters, "letter")}; `,
          `accuracy without them ${percent(row.accuracy_without_judge)}%`,
        )
      : null,
  ];
}

/** Counts by outcome, with links to the questions. */
function outcomeCell(row) {
  const parts = Object.values(OUTCOMES)
    .filter(({ name }) => row[name])
    .map(({ name, sign }) =>
      h(
        "a",
        {
          class: `count ${name}`,
          title: `${row[name]} ${name}`,
          href: link("questions", { show: row.name, outcome: name, of: row.name }),
        },
        h("span", { "aria-hidden": "true" }, sign),
        h("span", { class: "visually-hidden" }, name),
        ` ${count(row[name])}`,
      ),
    );
  return [outcomeBar(row), h("small", { class: "counts" }, parts)];
}

const cachedShare = (row) =>
  row.prompt_tokens && known(row.cached_tokens) ? row.cached_tokens / row.prompt_tokens : null;
const evaluationWords = (row) =>
  [
    row.name,
    row.model,
    row.sampling,
    row.track,
    row.reader,
    row.template,
    row.fingerprint,
    row.note,
    row.published ? "published" : "",
  ].join(" ");

/** Rows with all words of `q` and the track, without hidden published rows. */
function filtered(rows, { q, track, published }, words, hasSubtitles) {
  const needed = searchWords(q);
  return rows.filter((row) => {
    if (row.published && published === "hidden") return false;
    if (track && hasSubtitles && hasSubtitles(row) !== (track === "with")) return false;
    const text = words(row).toLowerCase();
    return needed.every((word) => text.includes(word));
  });
}

/** One row for each published score: a model has one with and one without subtitles. */
export function publishedRows(benchmark) {
  const grouped = isGrouped(benchmark);
  return (benchmark.published?.rows ?? []).flatMap((row) =>
    ["without", "with"]
      .filter((track) => known(row.overall[track]))
      .map((track) => ({
        published: true,
        name: row.model,
        note: row.parameters ?? row.kind,
        track: track === "with" ? "with" : "none",
        with_subtitles: track === "with",
        main: row.overall[track],
        group_score: grouped ? row.overall[track] : null,
        accuracy: grouped ? row.accuracy?.[track] : row.overall[track],
        accuracy_of_answered: grouped ? null : row.overall[track],
        parts: Object.fromEntries(
          benchmark.part_columns.map(([part]) => [part, row[part]?.[track]]),
        ),
        frames: /^\d+$/.test(row.frames ?? "") ? Number(row.frames) : row.frames,
        answered_at: row.date,
      })),
  );
}

function publishedNote(published) {
  return h(
    "p",
    { class: "soft" },
    "Published results are listed separately and used nowhere else on this page. Source: ",
    published.source,
    ". ",
    published.note,
  );
}

/**
 * The axis of the chart, zoomed to the evaluations that saw the videos. Chance and the best
 * baseline are in view if the axis is at most twice as long with them.
 */
function scoreAxis(benchmark) {
  const scored = benchmark.evaluations.filter((item) => known(mainScore(item)));
  const seen = scored.filter((item) => !item.baseline);
  const rows = (seen.length ? seen : scored)
    .map(mainInterval)
    .map(([value, low, high]) => ({ value, low, high }));
  const [zoomed, whole] = [zoomedAxis(rows), zoomedAxis([...rows, ...referenceValues(benchmark)])];
  return whole.high - whole.low <= 2 * (zoomed.high - zoomed.low) ? whole : zoomed;
}

function referenceLegend(benchmark) {
  const measure = isGrouped(benchmark) ? "group_score" : "accuracy";
  const { low, high } = scoreAxis(benchmark);
  return h(
    "p",
    { class: "legend" },
    `Chart zoomed to ${percent(low, 0)}–${percent(high, 0)}; ◂ and ▸ are outside`,
    referenceValues(benchmark).map((item) =>
      h(
        "span",
        { class: "key" },
        referenceKey(item.class),
        `${item.name} ${scoreText(measure, item.value)}`,
      ),
    ),
  );
}

/** Scores without and with subtitles: pairs that differ only in the track, and published models. */
function tracksTable(benchmark) {
  const pairs = trackPairs(benchmark).filter(
    (row) => known(row.overall.without) && known(row.overall.with),
  );
  const published = (benchmark.published?.rows ?? []).filter(
    (row) => known(row.overall.without) && known(row.overall.with),
  );
  if (!pairs.length && !published.length) return null;
  const rows = [...pairs, ...published];
  const parts =
    benchmark.published?.parts ??
    [
      ["overall", "Overall"],
      ["short", "Short"],
      ["medium", "Medium"],
      ["long", "Long"],
    ].filter(([key]) => pairs.some((row) => row[key]));
  const column = (part, title, track, label) => ({
    key: `${part}-${track}`,
    title: `${title}, ${label}`,
    number: true,
    value: (row) => row[part]?.[track],
    cell: (row) => atLeast(row.failed?.[track], percent(row[part]?.[track])),
  });
  const table = dataTable({
    label: "Without and with subtitles",
    rows,
    sticky: true,
    step: FIRST_ROWS,
    sort: "-overall-with",
    groups: {
      of: (row) => Number(Boolean(row.published)),
      titles: [null, "Published results"],
    },
    rowClass: (row) => (row.published ? "published" : null),
    columns: [
      {
        key: "model",
        title: "Evaluation",
        class: "name",
        value: (row) => row.model,
        cell: (row) => [
          h("span", {}, row.model),
          h(
            "small",
            {},
            row.published
              ? ["published", row.parameters ?? row.kind].filter(Boolean).join(" · ")
              : row.pair,
          ),
        ],
      },
      {
        key: "kind",
        title: "Kind",
        csvOnly: true,
        value: (row) => (row.published ? "published" : "evaluation"),
      },
      ...parts.flatMap(([part, title]) => [
        column(part, title, "without", "without"),
        column(part, title, "with", "with"),
      ]),
      lowerBoundColumn((row) => row.failed?.without, "Without"),
      lowerBoundColumn((row) => row.failed?.with, "With"),
      numberColumn("gain", "Gain", gain, points, {
        hint: "With minus without subtitles, overall, in points",
      }),
    ],
  });
  table.filter = (criteria) =>
    table.replace(
      filtered(
        rows,
        { ...criteria, track: "" },
        (row) => `${row.model} ${row.pair ?? ""} ${row.published ? "published" : ""} ${row.frames}`,
      ),
      `${benchmark.published?.measure ?? "Accuracy (%)"}; Breakdowns shows whether a gain is significant`,
    );
  return table;
}

const gain = (row) => row.overall.with - row.overall.without;

/** One row for each pair of evaluations that differ only in the track. */
function trackPairs(benchmark) {
  const rows = new Map();
  for (const item of benchmark.evaluations) {
    const row = rows.get(item.pairing) ?? { overall: {}, failed: {}, frames: item.frames };
    const track = item.subtitles ? "with" : "without";
    if (track === "without") row.model = item.name;
    else row.pair = `with subtitles: ${item.name}`;
    row.failed[track] = item.failed;
    const parts = { overall: mainScore(item), ...item.parts };
    if (isGrouped(benchmark)) parts.accuracy = item.accuracy;
    for (const [part, value] of Object.entries(parts)) row[part] = { ...row[part], [track]: value };
    rows.set(item.pairing, row);
  }
  return [...rows.values()];
}
