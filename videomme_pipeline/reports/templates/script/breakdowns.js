// Where it is strong and weak: every marginal as dots with intervals beside their numbers and
// n, two marginals crossed, a heat map, and what subtitles and more frames bring.

function breakdownsView({ benchmark, params }) {
  const shown = shownEvaluations(benchmark, params);
  const order = params.get("order") ?? "published";
  const sections = [];
  for (const breakdown of benchmark.breakdowns) sections.push(breakdownSection(benchmark, breakdown, shown, order));
  return [
    seriesPicker(benchmark, params, "breakdowns"),
    h("div", { class: "controls" }, select("Order of rows", [["published", "As published"], ["score", "Best first"], ["size", "Most questions first"]], order,
      (value) => go(link("breakdowns", { order: value === "published" ? null : value }, ["benchmark", "show", "cross"])))),
    ...sections,
    ...trackSection(benchmark, shown),
    ...framesSection(benchmark),
    ...crossedSection(benchmark, params, shown),
    ...heatSection(benchmark),
  ];
}

/** The evaluations that charts and the question table show: chosen in the address, or the best. */
function shownEvaluations(benchmark, params) {
  const wanted = params.get("show")?.split(",") ?? [];
  const chosen = benchmark.evaluations.filter((item) => wanted.includes(item.name));
  const fallback = ordered(benchmark.evaluations.filter((item) => !item.baseline), mainScore, true);
  const held = chosen.length ? chosen : (fallback.length ? fallback : benchmark.evaluations);
  return held.slice(0, chosen.length ? MAX_SHOWN : 4);
}

function seriesPicker(benchmark, params, view, shown = shownEvaluations(benchmark, params)) {
  const names = shown.map((item) => item.name);
  return h("fieldset", { class: "legend" },
    h("legend", {}, benchmark.evaluations.length > 1 ? `Evaluations shown (up to ${MAX_SHOWN})` : "Evaluation shown"),
    ordered(benchmark.evaluations, mainScore, true).map((item) => {
      const series = names.indexOf(item.name);
      const control = h("input", { type: "checkbox", disabled: series < 0 && names.length >= MAX_SHOWN, onchange: (event) => {
        const next = event.target.checked ? [...names, item.name] : names.filter((name) => name !== item.name);
        go(link(view, { show: next.join(",") }, ["benchmark", ...params.keys()].filter((key) => key !== "show")));
      } });
      control.checked = series >= 0;
      return h("label", {}, control, series >= 0 ? seriesKey(series) : null, item.name);
    }),
    view === "breakdowns" ? guessingKeys(benchmark) : null);
}

/** What guessing gets on average: the dashed line of a chart of `measure`. */
const guessing = (benchmark, measure) => (measure === "accuracy" ? benchmark.chance : benchmark.chance_group_score);

function guessingKeys(benchmark) {
  const measures = [...new Set(benchmark.breakdowns.map((item) => item.measure))].filter((measure) => known(guessing(benchmark, measure)));
  return measures.map((measure) => h("span", { class: "key" }, referenceKey(), `guessing ${percent(guessing(benchmark, measure))}`));
}

function breakdownSection(benchmark, breakdown, shown, order) {
  const rows = orderRows(breakdown.rows, shown, order);
  const references = [guessing(benchmark, breakdown.measure)].filter(known);
  const table = dataTable({
    caption: `${breakdown.measure === "accuracy" ? "Accuracy" : "Group score"} by ${breakdown.title.toLowerCase()}, with 95 % intervals clustered by video`,
    steps: false,
    columns: [
      { key: "value", title: breakdown.title, class: "name", value: (row) => row.value },
      { key: "plot", title: "", class: "plot", head: () => axisHead(UNIT_AXIS), cell: (row) => intervalPlot(
        shown.map((item, series) => cellMark(row.cells[item.index], series)), UNIT_AXIS, references) },
      { key: "n", title: breakdown.measure === "accuracy" ? "Questions" : "Groups", number: true, value: (row) => sizeOf(row), cell: (row) => count(sizeOf(row)) },
      { key: "videos", title: "Videos", number: true, value: (row) => firstCell(row)?.videos, cell: (row) => count(firstCell(row)?.videos) },
      ...shown.map((item, series) => ({
        key: item.name, title: item.name, number: true, class: "values", headClass: "own-name",
        value: (row) => row.cells[item.index]?.value,
        cell: (row) => scoreCell(row.cells[item.index], series) })),
    ],
    rows,
  });
  return h("section", {}, heading(breakdown.title, csvButton(`by-${breakdown.key}`, table)), table.element);
}

const firstCell = (row) => row.cells.find(Boolean);
const sizeOf = (row) => firstCell(row)?.n;

function cellMark(cell, series) {
  return cell ? { value: cell.value, low: cell.low, high: cell.high, series } : null;
}

function scoreCell(cell) {
  if (!cell) return NONE;
  return [h("span", {}, percent(cell.value)), h("small", {}, interval(cell.low, cell.high))];
}

function orderRows(rows, shown, order) {
  const first = shown[0]?.index ?? 0;
  if (order === "score") return ordered(rows, (row) => row.cells[first]?.value, true);
  if (order === "size") return ordered(rows, sizeOf, true);
  return rows;
}

function trackSection(benchmark, shown) {
  const pairs = benchmark.tracks.filter((pair) => shown.some((item) => item.index === pair.with || item.index === pair.without));
  return pairs.map((pair) => {
    const without = benchmark.evaluations[pair.without];
    const scale = differenceAxis(pair.rows);
    const table = differenceTable({
      caption: `${benchmark.evaluations[pair.with].name} minus ${without.name}, points of accuracy, paired by question`, rows: pair.rows, scale });
    return h("section", {}, heading(`What subtitles bring: ${without.model}, ${without.sampling}`, csvButton(`subtitles-${without.name}`, table)), table.element);
  });
}

/** Differences {by, value, n, difference, low, high, p?, significant?} as a table with a plot. */
function differenceTable({ caption, rows, scale, marked = false }) {
  const direction = (row) => (!known(row.low) || !isReal(row, marked) ? "even" : row.difference > 0 ? "better" : "worse");
  return dataTable({
    caption, steps: false, rows,
    columns: [
      { key: "value", title: "Questions", class: "name", value: (row) => (row.by ? `${row.by}: ${row.value}` : row.value), cell: (row) => [row.value, row.by ? h("small", {}, row.by) : null] },
      { key: "plot", title: "", class: "plot", head: () => axisHead(scale, points0), cell: (row) => intervalPlot(
        [{ value: row.difference, low: row.low, high: row.high, class: direction(row), series: 0 }], scale, [], 0) },
      { key: "difference", title: "Difference", number: true, value: (row) => row.difference, cell: (row) => h("span", { class: direction(row) }, points(row.difference)) },
      { key: "interval", title: "95 % interval", number: true, cell: pointsInterval },
      { key: "n", title: "n", number: true, value: (row) => row.n, cell: (row) => count(row.n) },
      rows.some((row) => known(row.p)) && { key: "p", title: marked ? "p, adjusted" : "p", number: true, value: (row) => row.p, cell: (row) => probability(row.p) },
      marked && { key: "mark", title: "After Benjamini–Hochberg", value: (row) => (row.significant ? "real" : ""),
        cell: (row) => (!known(row.significant) ? "" : row.significant ? h("strong", { class: "nowrap" }, "● real") : h("span", { class: "soft nowrap" }, "○ could be chance")) },
    ].filter(Boolean),
  });
}

const points0 = (value) => points(value).replace(/\.0$/, "");
const pointsInterval = (row) => (known(row.low) ? `${points(row.low)} to ${points(row.high)}` : NONE);

function isReal(row, marked = false) {
  return marked && known(row.significant) ? row.significant : known(row.low) && (row.low > 0 || row.high < 0);
}

/** Accuracy against the number of frames, where one model was asked with several samplings. */
function framesSection(benchmark) {
  const families = new Map();
  for (const item of benchmark.evaluations) {
    if (item.baseline || !known(item.num_frames)) continue;
    families.set(item.frames_family, [...(families.get(item.frames_family) ?? []), item]);
  }
  const lines = [...families.values()].filter((items) => new Set(items.map((item) => item.num_frames)).size > 1).slice(0, MAX_SHOWN);
  if (!lines.length) return [];
  const sizes = [...new Set(lines.flat().map((item) => item.num_frames))].sort((a, b) => a - b);
  const [first, last] = [Math.log2(sizes[0]), Math.log2(sizes.at(-1))];
  const x = (frames) => 0.05 + (0.9 * (Math.log2(frames) - first)) / (last - first);
  return [
    h("h2", {}, "Number of frames"),
    h("p", { class: "soft" }, "Score against frames per question, on a doubling scale. ", lines.map((items, series) => [h("span", { class: `series-${series}` }, "● "), items[0].model, items[0].subtitles ? " with subtitles " : " without subtitles "])),
    lineChart({
      label: lines.map((items) => `${items[0].model}: ${ordered(items, (item) => item.num_frames, false).map((item) => `${item.num_frames} frames ${percent(mainScore(item))}`).join(", ")}`).join("; "),
      scale: UNIT_AXIS, ticks: sizes.map((size) => ({ x: x(size), text: String(size) })), references: referenceValues(benchmark).map((item) => item.value),
      lines: lines.map((items, series) => ({ series, points: ordered(items, (item) => item.num_frames, false).map((item) => {
        const [value, low, high] = mainInterval(item);
        return { x: x(item.num_frames), value, low, high };
      }) })),
    }),
  ];
}

function crossedSection(benchmark, params, shown) {
  if (!benchmark.crossed.length) return [];
  const chosen = benchmark.crossed.find((item) => item.key === params.get("cross")) ?? benchmark.crossed[0];
  const scale = NARROW_AXIS;
  const references = [benchmark.chance].filter(known);
  const values = [...new Set(chosen.rows.map((row) => row.second))];
  const firsts = [...new Set(chosen.rows.map((row) => row.first))];
  const find = (first, second) => chosen.rows.find((row) => row.first === first && row.second === second);
  const table = dataTable({
    caption: `Accuracy by ${chosen.title.toLowerCase()}; n under each plot`, steps: false,
    columns: [
      { key: "value", title: chosen.second_title, class: "name", value: (row) => row.value },
      ...firsts.map((first) => ({
        key: first, title: first, class: "plot narrow", head: () => axisHead(scale),
        value: (row) => find(first, row.value)?.cells[shown[0]?.index]?.value,
        cell: (row) => {
          const held = find(first, row.value);
          if (!held) return NONE;
          return [
            intervalPlot(shown.map((item, series) => cellMark(held.cells[item.index], series)), scale, references),
            h("small", {}, `n ${count(sizeOf(held))}: `, shown.map((item, index) => [index ? " / " : "", percent(held.cells[item.index]?.value, 0)])),
          ];
        } })),
    ],
    rows: values.map((value) => ({ value })),
  });
  const control = select("Crossed", benchmark.crossed.map((item) => [item.key, item.title]), chosen.key,
    (key) => go(link("breakdowns", { cross: key }, ["benchmark", "show", "order"])));
  return [heading("Two at a time", csvButton(chosen.key, table)), h("div", { class: "controls" }, control), table.element];
}

/** Sub-category (v1) or third head (v2) × evaluation. */
function heatSection(benchmark) {
  const finest = benchmark.breakdowns.find((item) => item.key === "sub_category") ?? benchmark.breakdowns.find((item) => item.key === "third_head");
  if (!finest || benchmark.evaluations.length < 2) return [];
  const columns = ordered(benchmark.evaluations, mainScore, true);
  const shade = (value) => (known(value) ? Math.min(5, Math.floor(value * 6)) : 0);
  const table = dataTable({
    caption: `${finest.title} × evaluation: darker is better`, steps: false, sticky: true,
    columns: [
      { key: "value", title: finest.title, class: "name", value: (row) => row.value },
      { key: "n", title: "n", number: true, value: sizeOf, cell: (row) => count(sizeOf(row)) },
      ...columns.map((item) => ({
        key: item.name, title: item.name, headClass: "own-name", value: (row) => row.cells[item.index]?.value,
        class: (row) => `heat heat-${shade(row.cells[item.index]?.value)}`, cell: (row) => percent(row.cells[item.index]?.value, 0) })),
    ],
    rows: finest.rows,
  });
  return [heading("Heat map", csvButton(`heat-${finest.key}`, table)), table.element];
}
