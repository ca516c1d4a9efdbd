import { median } from './statistics.mjs';

/**
 * @typedef {object} Result One row of the table, measured.
 * @property {string} workload
 * @property {string} title
 * @property {string} key
 * @property {string} label
 * @property {string} unit
 * @property {'lower' | 'higher' | null} better
 * @property {import('../workloads/index.mjs').Goal | null} goal
 * @property {Side | null} a
 * @property {Side} b
 * @property {{ median: number, min: number, max: number } | null} ratio b / a, round by round
 * @property {boolean | null} met Null where there is no goal or no value.
 *
 * @typedef {import('./measure.mjs').Outcome[]} Outcomes One per round.
 *
 * @typedef {object} Side
 * @property {number | null} median
 * @property {number[]} values One per round.
 * @property {string | null} failure Why there is no value. One failed round fails all.
 */

/**
 * Turns the outcomes of all rounds of a workload into its rows.
 * @param {import('../workloads/index.mjs').Workload} workload
 * @param {{ a: Outcomes | null, b: Outcomes }} outcomes
 * @param {boolean} judged Whether the goals apply to what was compared.
 * @returns {Result[]}
 */
export function compare(workload, outcomes, judged) {
  return workload.rows.map(({ key, label, unit, better, goal = null }) => {
    const a = outcomes.a && sideOf(outcomes.a, key);
    const b = sideOf(outcomes.b, key);
    const ratio = a === null || unit === 'yes/no' ? null : ratioOf(a, b);
    const met = judged && goal !== null ? judge(goal, ratio, b) : null;
    const applied = judged ? goal : null;
    return {
      workload: workload.name,
      title: workload.title,
      key,
      label,
      unit,
      better,
      goal: applied,
      a,
      b,
      ratio,
      met,
    };
  });
}

/** @param {Outcomes} outcomes @param {string} key @returns {Side} */
function sideOf(outcomes, key) {
  const failed = outcomes.find((outcome) => outcome.failure !== undefined);
  if (failed !== undefined) return { median: null, values: [], failure: failed.failure };
  const values = outcomes.map((outcome) => outcome.metrics[key]);
  return { median: median(values), values, failure: null };
}

/** The two sides of one round ran under the same conditions, so they are compared with each other. @param {Side} a @param {Side} b */
function ratioOf(a, b) {
  if (a.failure !== null || b.failure !== null) return null;
  const ratios = b.values.map((value, round) => value / a.values[round]);
  if (!ratios.every(Number.isFinite)) return null;
  return { median: median(ratios), min: Math.min(...ratios), max: Math.max(...ratios) };
}

function judge({ of, comparison, limit }, ratio, b) {
  if (b.failure !== null) return false;
  const value = of === 'value' ? b.median : (ratio?.median ?? null);
  if (value === null) return null;
  return comparison === '<=' ? value <= limit : value >= limit;
}

/** Fewer rounds have no meaningful spread. */
const MIN_ROUNDS_FOR_VERDICT = 3;

/** The verdict where no goal applies: whether b differs from a beyond the spread of the rounds. @param {Result} result */
export function verdict({ ratio, better, b }) {
  if (ratio === null || better === null || b.values.length < MIN_ROUNDS_FOR_VERDICT) return '';
  if (ratio.min <= 1 && ratio.max >= 1) return 'same';
  return ratio.min > 1 === (better === 'higher') ? 'better' : 'worse';
}
