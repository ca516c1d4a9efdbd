import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { verdict } from './compare.mjs';

/**
 * @typedef {object} Report
 * @property {ReturnType<typeof import('./machine.mjs').describeMachine>} machine
 * @property {number} rounds
 * @property {boolean} quick
 * @property {boolean} reference Whether a is the reference.
 * @property {string | null} a Label of what was compared with.
 * @property {string} b Label of what was measured.
 * @property {import('./compare.mjs').Result[]} rows
 * @property {{ label: string, unit: string, value: number | null, failure: string | null }[]} ceiling
 */

/** The columns. Against the reference the goals apply, so the sides have names. @param {Report} report */
function headings({ reference }) {
  const [a, b] = reference ? ['reference', 'ours'] : ['a', 'b'];
  return ['workload', 'metric', a, b, 'ratio', 'spread', 'goal', 'met'];
}

/** The table for a terminal. @param {Report} report */
export function formatTable(report) {
  const lines = tableCells(report);
  const widths = lines[0].map((_, column) => Math.max(...lines.map((cells) => cells[column].length)));
  const body = lines.map((cells) =>
    cells
      .map((cell, i) => align(cell, widths[i], i))
      .join('  ')
      .trimEnd(),
  );
  return [...describe(report), '', ...body, '', ...footer(report), ''].join('\n');
}

/** The same as Markdown. @param {Report} report */
function formatMarkdown(report) {
  const [first, ...lines] = tableCells(report).map((cells) =>
    cells.map((cell) => cell.replaceAll('|', '\\|')),
  );
  const ruler = first.map((_, i) => (isNumber(i) ? '---:' : '---'));
  const table = [first, ruler, ...lines].map((cells) => `| ${cells.join(' | ')} |`);
  const lists = [describe(report), footer(report)].map((texts) =>
    texts.map((text) => `- ${text}`).join('\n'),
  );
  return `# Benchmark\n\n${lists[0]}\n\n${table.join('\n')}\n\n${lists[1]}\n`;
}

/** Writes latest.json and latest.md. @param {Report} report @param {string} folder */
export function saveReport(report, folder) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'latest.json'), `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(join(folder, 'latest.md'), formatMarkdown(report));
}

function describe({ machine, rounds, quick, reference, a, b }) {
  const { date, cpu, cores, memoryGb, kernel, node, commit, load } = machine;
  return [
    `${date}, commit ${commit ?? 'unknown'}, ${rounds} round${rounds === 1 ? '' : 's'}${quick ? ', quick: the figures mean nothing' : ''}`,
    `${cpu}, ${cores} cores, ${memoryGb} GB, Linux ${kernel}, Node ${node}, load ${load} at the start`,
    `${reference ? 'reference' : 'a'} = ${a ?? 'nothing'}`,
    `${reference ? 'ours' : 'b'} = ${b}`,
  ];
}

function tableCells(report) {
  let previous = '';
  const lines = report.rows.map((row) => {
    const title = row.workload === previous ? '' : row.title;
    previous = row.workload;
    return [
      title,
      row.label,
      row.a === null ? '' : formatSide(row.a, row.unit),
      formatSide(row.b, row.unit),
      row.ratio === null ? '' : formatRatio(row.ratio.median),
      row.ratio === null ? '' : `${formatRatio(row.ratio.min)}–${formatRatio(row.ratio.max)}`,
      row.goal === null ? '' : formatGoal(row),
      row.goal === null ? verdict(row) : formatMet(row),
    ];
  });
  return [headings(report), ...lines];
}

function footer({ rows, ceiling, reference }) {
  const judged = rows.filter((row) => row.met !== null);
  const met = judged.filter((row) => row.met).length;
  const failures = rows.flatMap((row) => [
    ...(row.a?.failure ? [`${reference ? 'reference' : 'a'}, ${row.title}: ${row.a.failure}`] : []),
    ...(row.b.failure ? [`${reference ? 'ours' : 'b'}, ${row.title}: ${row.b.failure}`] : []),
  ]);
  return [
    ...(judged.length > 0 ? [`${met} of ${judged.length} goals met`] : []),
    ...new Set(failures),
    ...ceiling.map(({ label, unit, value, failure }) =>
      failure === null
        ? `client ceiling, ${label}: ${formatValue(value, unit)}`
        : `client ceiling, ${label}: ${failure}`,
    ),
  ];
}

function formatSide({ median, failure }, unit) {
  return failure === null ? formatValue(median, unit) : 'FAILED';
}

function formatValue(value, unit) {
  if (unit === 'yes/no') return value >= 1 ? 'yes' : 'no';
  if (unit === 'count') return String(value);
  return `${formatNumber(value)} ${unit}`;
}

function formatNumber(value) {
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

function formatRatio(ratio) {
  const size = Math.abs(ratio);
  return `×${ratio.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3)}`;
}

function formatGoal({ goal, unit }) {
  if (unit === 'yes/no') return 'yes';
  const sign = goal.comparison === '<=' ? '≤' : '≥';
  return goal.of === 'ratio' ? `${sign} ×${goal.limit}` : `${sign} ${goal.limit}`;
}

/** The verdict includes by how much a goal is missed. */
function formatMet({ met, goal, ratio, b }) {
  if (met === null) return 'the reference failed';
  if (met) return 'met';
  if (b.failure !== null) return 'FAILED';
  const value = goal.of === 'ratio' ? ratio.median : b.median;
  const off = goal.comparison === '<=' ? value / goal.limit - 1 : 1 - value / goal.limit;
  return `missed by ${Math.round(off * 100)} %`;
}

function isNumber(column) {
  return column >= 2 && column <= 5;
}

function align(cell, width, column) {
  return isNumber(column) ? cell.padStart(width) : cell.padEnd(width);
}
