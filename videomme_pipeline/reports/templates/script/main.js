// Start of the page: read the numbers, draw the view of the URL, then read the texts.

import { go, link, readAddress } from "./address.js";
import { acrossView } from "./across.js";
import { breakdownsView } from "./breakdowns.js";
import { compareView } from "./compare.js";
import { arrange, unpack } from "./data.js";
import { append, h, select } from "./dom.js";
import { historyView } from "./history.js";
import { leaderboardView } from "./leaderboard.js";
import { onKey } from "./keyboard.js";
import { questionView } from "./question.js";
import { racesView } from "./races.js";
import { listing, questionsView } from "./questions.js";
import { trainingView } from "./training.js";

const VIEWS = {
  leaderboard: { title: "Leaderboard", draw: leaderboardView },
  breakdowns: { title: "Breakdowns", draw: breakdownsView },
  questions: { title: "Questions", draw: questionsView },
  compare: { title: "Compare", draw: compareView },
  history: {
    title: "History",
    draw: historyView,
    needs: (benchmark) => benchmark.history.length > 0,
  },
  training: {
    title: "Training",
    draw: trainingView,
    needs: (benchmark) => benchmark.checkpoints.length > 0,
  },
  races: { title: "Races", draw: racesView, needs: (benchmark) => benchmark.races.length > 0 },
  benchmarks: { title: "Benchmarks", draw: acrossView, needs: () => page.across.length > 0 },
  question: { title: "Question", draw: questionView, under: "questions" },
};

let page = null;
let texts = null;
let lastDrawn = null;

async function open() {
  page = await unpack("data-summary");
  drawTools();
  draw();
  markReady("numbers");
  texts = arrange(await unpack("data-details"), page.benchmarks);
  if (["questions", "question", "compare", "history"].includes(readAddress().view)) draw();
  markReady("texts");
}

/** Mark a loading stage for tests and measurements. */
function markReady(what) {
  document.documentElement.dataset.ready = what;
  performance.mark(what);
}

function draw() {
  const { view: name, params } = readAddress();
  const benchmark =
    page.benchmarks.find((item) => item.name === params.get("benchmark")) ?? page.benchmarks[0];
  const main = document.getElementById("main");
  if (!benchmark?.evaluations.length) {
    main.replaceChildren(
      h(
        "p",
        { class: "notice" },
        "No evaluation has been scored yet. ",
        h("code", {}, "videomme run"),
        " evaluates the models and builds this page again.",
      ),
    );
    return;
  }
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : VIEWS.leaderboard;
  drawNavigation(benchmark, view);
  document.getElementById("title").textContent = benchmark.title;
  document.getElementById("summary").textContent = benchmark.summary;
  document.title =
    name === "question"
      ? `${params.get("id")} · ${benchmark.title}`
      : `${view.title} · ${benchmark.title}`;
  const content = view.draw({
    benchmark,
    params,
    details: texts?.[benchmark.name],
    share: page.share,
    page,
  });
  const notices = unknownNames(benchmark, name, params);
  main.replaceChildren(...append(h("div"), [notices, content]).childNodes);
  const question = view === VIEWS.question ? params.get("id") : null;
  if (lastDrawn && (lastDrawn.view !== view || lastDrawn.question !== question))
    if (question || !lastDrawn.question || !returnTo(lastDrawn.question)) {
      main.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
  lastDrawn = { view, question };
}

/** Focus the row of a question, if it is listed. */
function returnTo(id) {
  const list = listing?.table;
  return Boolean(list?.element.isConnected) && list.reveal((row) => row.id === id);
}

/** A notice for each name in the URL that this page does not have. */
function unknownNames(benchmark, view, params) {
  const known = new Set(benchmark.evaluations.map((item) => item.name));
  const named = ["show", "a", "b", "of"].flatMap((key) => params.get(key)?.split(",") ?? []);
  const unknown = [...new Set(named)].filter((name) => name && !known.has(name));
  const requested = params.get("benchmark") ?? benchmark.name;
  const sentences = [
    !Object.hasOwn(VIEWS, view) && `There is no view “${view}”. This is the leaderboard.`,
    requested !== benchmark.name &&
      `This page has no benchmark “${requested}”. This is ${benchmark.title}.`,
    ...unknown.map((name) => [
      `This page has no evaluation “${name}” of ${benchmark.title}. If it is configured, `,
      h("code", {}, `videomme run ${name}`),
      " adds it.",
    ]),
  ];
  return sentences.filter(Boolean).map((sentence) => h("p", { class: "notice" }, sentence));
}

/** Draw the view of the URL, and mark it as drawn for tests. */
function turn() {
  draw();
  document.documentElement.dataset.shown = location.hash;
}

function drawNavigation(benchmark, current) {
  const active = current.under ? VIEWS[current.under] : current;
  const views = document.getElementById("views");
  views.replaceChildren(
    ...Object.entries(VIEWS)
      .filter(([, view]) => !view.under && (view === current || (view.needs?.(benchmark) ?? true)))
      .map(([name, view]) =>
        h("a", { href: link(name), "aria-current": view === active ? "page" : null }, view.title),
      ),
  );
}

function drawTools() {
  const tools = document.getElementById("tools");
  if (page.benchmarks.length > 1) {
    const { params } = readAddress();
    tools.append(
      select(
        "Benchmark",
        page.benchmarks.map((item) => [item.name, item.title]),
        params.get("benchmark") ?? page.benchmarks[0].name,
        (name) => go(link("leaderboard", { benchmark: name, show: null })),
      ),
    );
  }
  tools.append(h("button", { type: "button", id: "theme", onclick: turnTheme }, themeLabel()));
}

const isDark = () =>
  (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const themeLabel = () => (isDark() ? "Light" : "Dark");

function turnTheme(event) {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  event.target.textContent = themeLabel();
}

window.addEventListener("hashchange", turn);
document.addEventListener("keydown", onKey);
open();
