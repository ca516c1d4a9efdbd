// Loads the recorded cases. Rejects cases that are misspelt or cannot fail.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { patternProblems } from './match.mjs';
import { expand } from './payload.mjs';
import { COMMON_OPTIONS, STEPS } from './steps.mjs';
import { loadTranscripts } from './transcript.mjs';

const CASES = fileURLToPath(new URL('cases/', import.meta.url));
const GOLDEN = fileURLToPath(new URL('../golden/', import.meta.url));
const DEVIATIONS = fileURLToPath(new URL('deviations.json', import.meta.url));

const CASE_KEYS = [
  'area',
  'name',
  'about',
  'connections',
  'server',
  'needs',
  'only',
  'deviation',
  'serial',
  'slow',
  'variables',
  'rows',
  'steps',
];
const SERVERS = ['reference', 'exec-server'];
const KEBAB = /^[a-z0-9]+(-[a-z0-9]+)*(\/[a-z0-9]+(-[a-z0-9]+)*)?$/;
const DECISION = /^docs\/decisions\/[a-z0-9-]+\.md$/;
/** Members of a step that hold a pattern. */
const PATTERNS = new Set(
  [
    'result',
    'error',
    'reply',
    'raw',
    'message',
    'text',
    'status',
    'body',
    'code',
    'reason',
    'seen',
    'elapsedMs',
    'head',
    'line',
    'deltas',
    'upstreamConnections',
  ].concat(['stdout', 'stderr', 'pty', 'order', 'exitCode', 'sandboxDenied', 'chunks', 'serverExit']),
);

/** All cases in the order of their files; a case with `rows` becomes one case per row. Throws when one is invalid. */
export function loadCases() {
  const files = readdirSync(CASES).filter((file) => file.endsWith('.json'));
  const recorded = files.sort().flatMap((file) => {
    const area = file.replace(/\.json$/, '');
    return JSON.parse(readFileSync(join(CASES, file), 'utf8')).map((testCase) => ({ area, ...testCase }));
  });
  const cases = [...recorded.flatMap(expandRows), ...loadTranscripts(GOLDEN)];
  const problems = caseProblems(cases, loadDeviations());
  if (problems.length > 0) throw new Error(`invalid cases:\n${problems.join('\n')}`);
  return cases;
}

/** The intended differences from the reference: name → reason and decision. */
export function loadDeviations() {
  return JSON.parse(readFileSync(DEVIATIONS, 'utf8'));
}

/** The problems of these cases, one line each. */
export function caseProblems(cases, deviations) {
  const names = cases.map(({ name }) => name);
  const used = new Set(cases.flatMap(({ deviation = [] }) => deviation));
  return [
    ...names
      .filter((name, index) => names.indexOf(name) !== index)
      .map((name) => `${name}: the name is used twice`),
    ...cases.flatMap((testCase) =>
      problemsOf(testCase, deviations).map((problem) => `${testCase.name}: ${problem}`),
    ),
    ...Object.entries(deviations)
      .filter(([, { reason, decision }]) => !reason || !DECISION.test(decision ?? ''))
      .map(([name]) => `deviation ${name}: needs a reason and a decision in docs/decisions`),
    ...Object.keys(deviations)
      .filter((name) => !used.has(name))
      .map((name) => `deviation ${name}: no case shows it`),
  ];
}

function expandRows({ rows, ...testCase }) {
  if (!rows) return [testCase];
  return Object.entries(rows).map(([row, values]) => ({
    ...testCase,
    name: `${testCase.name}/${row}`,
    ...(testCase.variables && { variables: fillIn(testCase.variables, { row, ...values }) }),
    steps: fillIn(testCase.steps, { row, ...values }),
  }));
}

/** Variables of the row are filled in now; the others when the case runs. */
function fillIn(value, row) {
  if (typeof value === 'string') {
    const name = /^\{\{([\w.-]+)\}\}$/.exec(value)?.[1];
    if (name !== undefined && Object.hasOwn(row, name)) return row[name];
    const known = Object.keys(row).filter((key) => value.includes(`{{${key}}}`));
    return known.reduce(
      (text, key) => text.replaceAll(`{{${key}}}`, () => String(expand(row[key], {}))),
      value,
    );
  }
  if (Array.isArray(value)) return value.map((item) => fillIn(item, row));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [fillIn(key, row), fillIn(item, row)]),
  );
}

function problemsOf(testCase, deviations) {
  const { name, about, only, steps = [] } = testCase;
  const named = [testCase.deviation ?? []].flat();
  const problems = Object.keys(testCase)
    .filter((key) => !CASE_KEYS.includes(key))
    .map((key) => `unknown member ${key}`);
  if (!KEBAB.test(name)) problems.push('the name is not kebab-case');
  if (!about) problems.push('has no `about` text');
  if (only && !SERVERS.includes(only)) problems.push(`unknown server ${only}`);
  for (const server of only ? [only] : SERVERS) {
    const asserting = flatten(steps).filter((step) => !step.only || step.only === server);
    if (!asserting.some((step) => STEPS[verbOf(step)]?.asserts))
      problems.push(`nothing can fail on ${server}`);
  }
  const differs = only || flatten(steps).some((step) => step.only || step.onReference || step.onOurs);
  if (differs && named.length === 0) problems.push('differs between the servers and names no deviation');
  if (named.length > 0 && !differs) problems.push('names a deviation and is the same for both servers');
  for (const missing of named.filter((key) => !Object.hasOwn(deviations, key))) {
    problems.push(`unknown deviation ${missing}`);
  }
  return [...problems, ...flatten(steps).flatMap(stepProblems)];
}

function stepProblems(step, index) {
  const verb = verbOf(step);
  if (!verb) return [`step ${index + 1} has no verb`];
  const allowed = [verb, ...COMMON_OPTIONS, ...(STEPS[verb].options ?? [])];
  const unknown = Object.keys(step).filter((key) => !allowed.includes(key));
  const problems = unknown.map((key) => `unknown option ${key}`);
  if (['request', 'response'].includes(verb)) {
    for (const form of [step, step.onReference, step.onOurs].filter(Boolean)) {
      const count = ['result', 'error', 'reply'].filter((key) => key in form).length;
      const isBaseWithTwoAlternatives = form === step && step.onReference && step.onOurs;
      if (count !== 1 && !isBaseWithTwoAlternatives && !(form !== step && count === 0)) {
        problems.push('needs exactly one of result, error, reply');
      }
    }
  }
  for (const form of [step, step.onReference ?? {}, step.onOurs ?? {}]) {
    for (const key of Object.keys(form))
      if (isPattern(verb, key)) problems.push(...patternProblems(form[key]));
  }
  return problems.map((problem) => `step ${index + 1} (${verb}): ${problem}`);
}

function isPattern(verb, key) {
  if (key === 'text') return verb === 'output';
  if (key === 'params') return verb === 'notification';
  if (key === 'headers') return verb === 'http';
  return PATTERNS.has(key);
}

function flatten(steps) {
  return steps.flatMap((step) => (step.steps ? [step, ...flatten(step.steps)] : [step]));
}

function verbOf(step) {
  return Object.keys(step).find((key) => Object.hasOwn(STEPS, key));
}
