// What the models saw: the frames with their times, the subtitle lines, and the local video.

import { h } from "./dom.js";
import { clock, count, known, plural } from "./format.js";

// `reports/stored.py` writes contact sheets with these numbers.
const SHEET_COLUMNS = 8;
const CELL = { width: 256, height: 144 };
const MAX_PICTURES = 768;

const FIRST_FRAMES = 64;
const FIRST_LINES = 40;

/** A section for each sampling of the shown evaluations. */
export function inputSections(benchmark, details, index, shown) {
  const video = benchmark.questions.video[index];
  const inputs = details.inputs?.[video] ?? {};
  const seen = shown.filter((item) => inputs[item.input_key]);
  return [...Map.groupBy(seen, (item) => item.sampling)]
    .filter(
      ([, items]) =>
        inputs[items[0].input_key].frames.length || items.some((item) => item.subtitles),
    )
    .map(([sampling, items]) => inputSection(sampling, items, inputs, details.videos[video]));
}

function inputSection(sampling, items, inputs, video) {
  const { frames, sheet } = inputs[items[0].input_key];
  const tracks = [
    ...Map.groupBy(
      items.filter((item) => item.subtitles),
      (item) => item.input_key,
    ),
  ];
  const captions = tracks.length ? inputs[tracks[0][0]].lines : [];
  return h(
    "section",
    {},
    h(
      "h2",
      {},
      frames.length ? plural(frames.length, "frame") : "Frames",
      h("small", { class: "beside" }, `${sampling}, seen by ${namesOf(items)}`),
    ),
    frames.length
      ? filmstrip(frames, sheet, video, captions)
      : h("p", { class: "soft" }, "No frames were sent, or they are no longer stored."),
    frames.length > 0 && !sheet
      ? h(
          "p",
          { class: "soft" },
          h("code", {}, "videomme report --serve"),
          " shows the pictures and plays the video from each of them.",
        )
      : null,
    tracks.map(([key, readers]) => subtitleLines(inputs[key], namesOf(readers))),
  );
}

const namesOf = (items) => items.map((item) => item.name).join(", ");

/** The frames in order of time, each with its subtitle lines. A frame plays the video from there. */
function filmstrip(times, sheet, video, lines) {
  const player = video ? videoPlayer(video) : null;
  const byFrame = Map.groupBy(lines, (line) => line.frame);
  const isPlain = !sheet && !lines.some((line) => known(line.frame));
  const strip = h("ol", { class: isPlain ? "frames times-only" : "frames" });
  const frame = (seconds, number) =>
    h(
      "li",
      {},
      sheet && number < MAX_PICTURES ? picture(sheet, times.length, number, seconds) : null,
      player
        ? h(
            "button",
            { type: "button", class: "plain link", onclick: () => player.playFrom(seconds) },
            h("span", { class: "visually-hidden" }, "Play from "),
            clock(seconds),
          )
        : h("span", {}, clock(seconds)),
      byFrame.get(number)?.map((line) => h("q", { dir: "auto" }, line.text)),
    );
  return [player?.element, growingList(strip, times.map(frame), FIRST_FRAMES, "frame")];
}

/** One cell of a contact sheet. */
function picture(sheet, total, number, seconds) {
  const { width, height } = CELL;
  const rows = Math.ceil(Math.min(total, MAX_PICTURES) / SHEET_COLUMNS);
  const [x, y] = [number % SHEET_COLUMNS, Math.floor(number / SHEET_COLUMNS)];
  return h(
    "svg",
    {
      viewBox: `${x * width} ${y * height} ${width} ${height}`,
      role: "img",
      "aria-label": `Frame ${number + 1} at ${clock(seconds)}`,
    },
    h("image", { href: sheet, width: SHEET_COLUMNS * width, height: rows * height }),
  );
}

/** The local video, hidden until it is played. */
function videoPlayer(url) {
  const problem = h("p", { class: "notice", hidden: true }, "This browser cannot play the video.");
  const video = h("video", {
    controls: true,
    preload: "none",
    hidden: true,
    src: url,
    onerror: () => {
      problem.hidden = false;
    },
  });
  return {
    element: [video, problem],
    playFrom(seconds) {
      video.hidden = false;
      video.currentTime = seconds;
      video.scrollIntoView({ block: "nearest" });
      video.play().catch(() => {}); // the error event tells why
    },
  };
}

function subtitleLines({ lines, lines_cut: cut }, names) {
  const total = plural(lines.length + (cut ?? 0), "subtitle line");
  if (!lines.length && !cut)
    return h("p", { class: "soft" }, `This video has no subtitles at the frames of ${names}.`);
  return h(
    "details",
    { open: lines.some((line) => !known(line.frame)) },
    h("summary", {}, `${total} with their times, sent to ${names}`),
    growingList(h("ol", { class: "lines" }), lines.map(lineItem), FIRST_LINES, "line"),
    cut
      ? h("p", { class: "soft" }, `${plural(cut, "line")} left out to keep this page small.`)
      : null,
  );
}

function lineItem(line) {
  return h(
    "li",
    {},
    h(
      "span",
      { class: "times" },
      `${clock(line.start_seconds)} to ${clock(line.end_seconds)}`,
      known(line.frame) ? ` · frame ${line.frame + 1}` : "",
    ),
    h("span", { dir: "auto" }, line.text),
  );
}

/** A list with its first items, and a button for the others. */
function growingList(list, items, first, noun) {
  list.append(...items.slice(0, first));
  if (items.length <= first) return list;
  const more = h(
    "button",
    {
      type: "button",
      onclick: () => {
        list.append(...items.slice(first));
        more.remove();
      },
    },
    `Show all ${count(items.length)} ${noun}s`,
  );
  return [list, h("p", { class: "more" }, more)];
}
