// The same evaluation asked again, night by night.

function historyView({ benchmark, params }) {
  const observed = benchmark.evaluations.filter((item) => benchmark.history.some((night) => night.evaluation === item.index));
  const shown = shownEvaluations(benchmark, params);
  const held = shown.some((item) => observed.includes(item)) ? shown : observed.slice(0, MAX_SHOWN);
  const drawn = held.filter((item) => observed.includes(item)).map((item) => item.name);
  const nights = benchmark.history.filter((night) => held.some((item) => item.index === night.evaluation));
  const times = [...new Set(nights.map((night) => night.date))].sort();
  const [first, last] = [Date.parse(times[0]), Date.parse(times.at(-1))];
  const x = (date) => (last === first ? 0.5 : 0.03 + (0.94 * (Date.parse(date) - first)) / (last - first));
  const scale = historyAxis(nights);
  const series = (night) => held.findIndex((item) => item.index === night.evaluation);
  const stride = Math.max(1, Math.ceil(times.length / 6));
  const table = dataTable({
    caption: "Every observation", sort: "-date",
    columns: [
      { key: "date", title: "Night", class: "nowrap", value: (row) => row.date, cell: (row) => day(row.date) },
      { key: "evaluation", title: "Evaluation", value: (row) => benchmark.evaluations[row.evaluation].name },
      { key: "value", title: "Score", number: true, value: (row) => row.value, cell: (row) => percent(row.value) },
      { key: "interval", title: "95 % interval", number: true, cell: (row) => interval(row.low, row.high) },
      { key: "n", title: "n", number: true, value: (row) => row.n, cell: (row) => count(row.n) },
      { key: "failed", title: "Never answered", number: true, value: (row) => row.failed, cell: (row) => count(row.failed) },
      { key: "change", title: "Since the night before", number: true, value: (row) => row.change, cell: (row) => points(row.change) },
    ],
    rows: withChange(nights),
  });
  return [
    seriesPicker(benchmark, params, "history", held),
    h("h2", {}, "Score by night"),
    lineChart({
      label: `Score by night for ${drawn.join(", ")}; the same numbers are in the table below`, scale,
      ticks: times.filter((_, index) => index % stride === 0).map((date) => ({ x: x(date), text: day(date).replace(/ \d{4}$/, "") })),
      lines: held.map((item, position) => ({ series: position, points: nights.filter((night) => series(night) === position)
        .sort((one, other) => compareText(one.date, other.date)).map((night) => ({ x: x(night.date), value: night.value, low: night.low, high: night.high })) })),
    }),
    heading("Nights", csvButton("history", table)), table.element,
  ];
}

function historyAxis(nights) {
  const low = Math.min(...nights.map((night) => night.low ?? night.value));
  const high = Math.max(...nights.map((night) => night.high ?? night.value));
  return axis(Math.max(0, Math.floor(low * 20) / 20), Math.min(1, Math.ceil(high * 20) / 20));
}

function withChange(nights) {
  const before = new Map();
  return ordered(nights, (night) => night.date, false).map((night) => {
    const last = before.get(night.evaluation);
    before.set(night.evaluation, night.value);
    return { ...night, change: known(last) ? night.value - last : null };
  });
}
