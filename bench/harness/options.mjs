import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';

export const USAGE = `usage: node bench/run.mjs [options]
  --only NAME[,NAME]  only workloads whose name contains one of these
  --rounds N          rounds per workload, 5 by default; the servers take turns
  --quick             small sizes and one round: does it work, not how fast
  --a COMMAND         what to compare with: a command whose first line on stdout is its url, or \`none\`;
                      by default the reference, codex 0.166.0
  --b COMMAND         what to measure; by default this checkout
  --work FOLDER       where the files are made that are read and written, 1.5 GB; by default the system's temporary folder
  --json              print JSON instead of the table
  --save              write bench/results/latest.json and latest.md
  --list              print the names of the workloads
`;

/**
 * @typedef {object} Options
 * @property {string[]} only
 * @property {number} rounds
 * @property {boolean} quick
 * @property {string | null} a Null for the reference, `none` for nothing.
 * @property {string | null} b Null for this checkout.
 * @property {string} work
 * @property {boolean} json
 * @property {boolean} save
 * @property {boolean} list
 * @property {boolean} help
 */

/** @param {string[]} argv @returns {Options} Throws an error with a readable message when they are invalid. */
export function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      only: { type: 'string', multiple: true, default: [] },
      rounds: { type: 'string' },
      quick: { type: 'boolean', default: false },
      a: { type: 'string' },
      b: { type: 'string' },
      work: { type: 'string', default: tmpdir() },
      json: { type: 'boolean', default: false },
      save: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const { quick, work, json, save, list, help, a = null, b = null } = values;
  const rounds = Number(values.rounds ?? (quick ? 1 : 5));
  if (!Number.isInteger(rounds) || rounds < 1 || rounds > 100) throw new Error('--rounds takes 1 to 100');
  if (save && quick) throw new Error('--quick measures nothing worth saving');
  const only = values.only.flatMap((names) => names.split(',')).filter((name) => name !== '');
  return { only, rounds, quick, a, b, work, json, save, list, help };
}
