// The benchmark: every workload against two servers, alternating. See README.md.
import { mkdtempSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { compare } from './harness/compare.mjs';
import { describeMachine } from './harness/machine.mjs';
import { endMeasurement, measure } from './harness/measure.mjs';
import { readOptions, USAGE } from './harness/options.mjs';
import { formatTable, saveReport } from './harness/report.mjs';
import { commandSpec, launcherSpec, ownSpec, ROOT, referenceSpec, replaySpec } from './harness/servers.mjs';
import { WORKLOADS } from './workloads/index.mjs';

/** @param {import('./harness/options.mjs').Options} options */
async function main(options) {
  const workloads = selectWorkloads(options.only);
  const work = createWorkFolder(options.work);
  const isReference = options.a === null;
  const a = isReference ? await referenceSpec() : options.a === 'none' ? null : commandSpec(options.a);
  const b = options.b === null ? ownSpec() : commandSpec(options.b);
  const machine = describeMachine();
  if (machine.load > machine.cores / 2)
    progress(`load ${machine.load} on ${machine.cores} cores: expect noise`);

  const rows = [];
  for (const workload of workloads) {
    const missing = workload.unavailable?.() ?? null;
    if (missing !== null) {
      progress(`${workload.name}: left out: ${missing}`);
      continue;
    }
    const other = sideToCompare(workload, a, isReference);
    // Against any other server the launcher row would repeat the native row.
    if (workload.against === 'launcher' && a !== null && other === null) continue;
    const outcomes = await runRounds(workload, other, b, { ...options, work });
    rows.push(...compare(workload, outcomes, isReference && !options.quick));
  }
  const ceiling = options.quick ? [] : await measureCeiling(workloads, work);
  const report = {
    machine,
    rounds: options.rounds,
    quick: options.quick,
    reference: isReference,
    a: a?.label ?? null,
    b: b.label,
    rows,
    ceiling,
  };
  if (options.save) saveReport(report, join(ROOT, 'bench', 'results'));
  process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatTable(report));
  return rows.some((row) => row.b.failure !== null) ? 1 : 0;
}

/** A new folder for the files of this run. It is removed when this process exits. */
function createWorkFolder(parent) {
  const folder = mkdtempSync(join(resolve(parent), 'exec-server-bench-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

function selectWorkloads(only) {
  const selected = WORKLOADS.filter(
    ({ name }) => only.length === 0 || only.some((part) => name.includes(part)),
  );
  if (selected.length === 0)
    throw new Error(`--only ${only.join(',')} matches no workload; --list names them`);
  return selected;
}

function sideToCompare({ against }, a, isReference) {
  if (against === 'nothing') return null;
  return against === 'launcher' ? launcherOf(a, isReference) : a;
}

function launcherOf(a, isReference) {
  if (!isReference) return null;
  const launcher = launcherSpec(a);
  if (launcher === null) progress('the reference was not installed by npm: no launcher to compare with');
  return launcher;
}

/** Rounds a b, b a, a b …, so that drift of the machine affects both sides equally. */
async function runRounds(workload, a, b, { rounds, quick, work }) {
  const outcomes = { a: a === null ? null : [], b: [] };
  for (let round = 0; round < rounds; round++) {
    const sides = round % 2 === 0 ? ['a', 'b'] : ['b', 'a'];
    for (const side of sides) {
      const spec = side === 'a' ? a : b;
      if (spec === null) continue;
      const outcome = await measure(workload, spec, { quick, work });
      outcomes[side].push(outcome);
      progress(`${workload.name} ${round + 1}/${rounds} ${side}: ${summary(outcome)}`);
    }
  }
  return outcomes;
}

const CEILINGS = [
  { name: 'pipe-512mb', label: 'output in frames of 8 KB', chunkBytes: 8_192, key: 'rate', unit: 'MB/s' },
  { name: 'pipe-512mb', label: 'output in frames of 64 KB', chunkBytes: 65_536, key: 'rate', unit: 'MB/s' },
];

/** The client's rate against a server that only sends, for the selected workloads that the client could limit. */
async function measureCeiling(workloads, work) {
  const found = [];
  for (const { name, label, chunkBytes, key, unit } of CEILINGS) {
    const workload = workloads.find((candidate) => candidate.name === name);
    if (workload === undefined) continue;
    const outcome = await measure(workload, replaySpec(chunkBytes), { quick: false, work });
    progress(`client ceiling, ${label}: ${summary(outcome)}`);
    found.push({
      label,
      unit,
      value: outcome.metrics?.[key] ?? null,
      failure: outcome.failure ?? null,
    });
  }
  return found;
}

/** @param {import('./harness/measure.mjs').Outcome} outcome */
function summary({ metrics, failure }) {
  if (failure !== undefined) return `FAILED: ${failure}`;
  return Object.entries(metrics)
    .map(([key, value]) => `${key} ${Number(value.toPrecision(4))}`)
    .join(', ');
}

function progress(text) {
  process.stderr.write(`${text}\n`);
}

// On a signal the client ends first, so that it can stop its own programs. Servers stop, and files are removed, when this process exits.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => endMeasurement().finally(() => process.exit(130)));
}
try {
  const options = readOptions(process.argv.slice(2));
  if (options.help) process.stdout.write(USAGE);
  else if (options.list)
    process.stdout.write(WORKLOADS.map(({ name, title }) => `${name}: ${title}\n`).join(''));
  else process.exitCode = await main(options);
} catch (error) {
  progress(`bench: ${error.message}`);
  process.exitCode = 2;
}
