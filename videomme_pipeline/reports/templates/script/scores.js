// The scores of evaluations, and the references of a score: chance and the best baseline.

import { atLeast, known, scoreText } from "./format.js";
import { ordered } from "./tables.js";

export const mainScore = (evaluation) =>
  evaluation.mean?.value ?? evaluation.group_score ?? evaluation.accuracy;
export const mainScoreText = (evaluation) =>
  atLeast(
    evaluation.failed,
    scoreText(known(evaluation.group_score) ? "group_score" : "accuracy", mainScore(evaluation)),
  );

export function mainInterval(evaluation) {
  const { mean } = evaluation;
  if (mean) return [mean.value, mean.low, mean.high];
  return known(evaluation.group_score)
    ? [evaluation.group_score, evaluation.group_score_low, evaluation.group_score_high]
    : [evaluation.accuracy, evaluation.accuracy_low, evaluation.accuracy_high];
}

/** "without subtitles", "with subtitles and audio": scores of different tracks are not compared. */
export const trackTitle = ({ subtitles, audio, chosen, conversation }) =>
  `${chosen ? "chosen questions, " : ""}${conversation ? "in conversations, " : ""}` +
  `${subtitles ? "with" : "without"} subtitles${audio ? " and audio" : ""}`;

/** The tracks of `evaluations` as [title, evaluations], without subtitles first. */
export function byTrack(evaluations) {
  const titles = [...new Set(evaluations.map(trackTitle))];
  return ordered(titles, (title) => title.replace("without", ""), false).map((title) => [
    title,
    evaluations.filter((item) => trackTitle(item) === title),
  ]);
}

export const isBlocked = (evaluation) => evaluation.citation === "blocked";

export const isGrouped = (benchmark) =>
  benchmark.evaluations.some((item) => known(item.group_score));

/** Scores reached without the video: chance and the best baseline. */
export function referenceValues(benchmark) {
  const values = [];
  const chance = isGrouped(benchmark) ? null : benchmark.chance;
  if (known(chance)) values.push({ name: "chance", value: chance, class: "chance" });
  const blind = bestBaseline(benchmark);
  if (blind)
    values.push({ name: `best baseline (${blind.name})`, value: mainScore(blind), class: "blind" });
  return values;
}

/** The best evaluation that did not see the videos. */
export function bestBaseline(benchmark) {
  return ordered(
    benchmark.evaluations.filter((item) => item.baseline && known(mainScore(item))),
    mainScore,
    true,
  )[0];
}

/** Expected accuracy of random guessing: the dashed line in charts. A group score has none. */
export const chanceOf = (benchmark, measure) => (measure === "accuracy" ? benchmark.chance : null);
