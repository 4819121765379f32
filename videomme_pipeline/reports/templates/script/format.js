// Numbers and times as text. A missing value is shown as an en dash.

export const NONE = "–";
/** Smaller p-values are below the rounding error of the exact tests. */
const MIN_PROBABILITY = 1e-12;
const numbers = new Intl.NumberFormat("en");
const shortNumbers = new Intl.NumberFormat("en", {
  notation: "compact",
  maximumSignificantDigits: 3,
});

/** `value` with `digits` decimals. A tie goes to the even digit, as in the terminal: 1.25 is "1.2". */
function rounded(value, digits) {
  const text = value.toFixed(digits);
  const isTie = new RegExp(`\\.\\d{${digits}}50*$`).test(value.toFixed(20));
  const last = Number(text.at(-1));
  return isTie && last % 2 ? `${text.slice(0, -1)}${last - 1}` : text;
}

export const known = (value) => value !== null && value !== undefined;
export const count = (value) => (known(value) ? numbers.format(value) : NONE);
export const compact = (value) => (known(value) ? shortNumbers.format(value) : NONE);
export const percent = (value, digits = 1) => (known(value) ? rounded(100 * value, digits) : NONE);
/** A score with its unit: accuracy as "63.9%", group score as "41.2". */
export const scoreText = (measure, value) =>
  known(value) && measure === "accuracy" ? `${percent(value)}%` : percent(value);
/** `text` of a score: a lower bound if questions `failed`, because they count as wrong. */
export const atLeast = (failed, text) => (failed && text !== NONE ? `≥ ${text}` : text);
export const dollars = (value) => (known(value) ? `$${value.toFixed(value < 1 ? 4 : 2)}` : NONE);
export const seconds = (value) =>
  !known(value) ? NONE : value < 0.005 ? "< 0.01 s" : `${value.toFixed(value < 10 ? 2 : 1)} s`;
export const interval = (low, high) =>
  known(low) && known(high) ? `${percent(low)}–${percent(high)}` : NONE;

/** A difference in percentage points, with its sign: "+2.3". */
export function points(value) {
  if (!known(value)) return NONE;
  const text = rounded(Math.abs(100 * value), 1);
  if (text === "0.0") return text;
  return value > 0 ? `+${text}` : `−${text}`;
}

export function probability(value) {
  if (!known(value)) return NONE;
  if (value <= MIN_PROBABILITY) return "< 1e-12";
  return value < 0.001 ? value.toExponential(1) : value.toFixed(4);
}

/** Video time: 75.5 as "1:15.5". */
export function clock(value) {
  if (!known(value)) return NONE;
  const tenths = Math.round(value * 10);
  const minutes = Math.floor(tenths / 600);
  const rest = (tenths - minutes * 600) / 10;
  return `${minutes}:${rest < 10 ? "0" : ""}${rest.toFixed(1)}`;
}

/** The UTC date of an ISO time: "2026-11-20". */
export function day(iso) {
  return iso ? new Date(iso).toISOString().slice(0, 10) : NONE;
}

export function plural(number, singular, many = `${singular}s`) {
  return `${count(number)} ${number === 1 ? singular : many}`;
}

export const compareText = new Intl.Collator("en", { numeric: true }).compare;
