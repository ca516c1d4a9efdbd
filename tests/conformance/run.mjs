// npm run conformance -- ws://127.0.0.1:1234 [--server reference|exec-server] [--only text] [--json] [--slow] [--trace]
// npm run conformance -- --reference [--record]
// npm run conformance -- --own
import { parseArgs } from 'node:util';
import { loadCases } from './cases.mjs';
import { recordVerified } from './reference-verified.mjs';
import { formatFailure, runCases } from './runner.mjs';
import { learnFacts, startOurs, startReferenceForCases } from './servers.mjs';

const USAGE = `usage: run.mjs <ws url> | --reference | --own
  --server reference|exec-server   whose rules apply where the two differ (default exec-server)
  --only <text>                    only cases whose area or name contains the text
  --record                         note the areas that the reference passed, so that the suite need not play them on it again
  --slow                           also the cases that take half a minute
  --json                           one JSON object per case instead of lines
  --trace                          print what arrived in each failed case`;

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      server: { type: 'string' },
      only: { type: 'string', default: '' },
      reference: { type: 'boolean', default: false },
      own: { type: 'boolean', default: false },
      record: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      slow: { type: 'boolean', default: false },
      trace: { type: 'boolean', default: false },
    },
  });
  const server = values.server ?? (values.reference ? 'reference' : 'exec-server');
  const targets = positionals.length + Number(values.reference) + Number(values.own);
  const isRecordable = values.reference && values.only === '';
  if (targets !== 1 || (values.record && !isRecordable) || !['reference', 'exec-server'].includes(server)) {
    process.stderr.write(`${USAGE}\n`);
    return 2;
  }
  const launch = values.reference ? startReferenceForCases : values.own ? startOurs : undefined;
  const running = await launch?.();
  try {
    return await playAll(values, { url: running?.url ?? positionals[0], server, launch });
  } finally {
    await running?.stop();
  }
}

async function playAll(values, target) {
  const cases = loadCases().filter(
    ({ area, name, slow }) => `${area} ${name}`.includes(values.only) && (!slow || values.slow),
  );
  const facts = await learnFacts(target.url);
  const results = await runCases(cases, {
    ...target,
    facts,
    onResult: (result) => {
      if (values.json) process.stdout.write(`${JSON.stringify(result)}\n`);
      else if (result.status === 'failed') {
        process.stdout.write(`FAIL ${formatFailure(result)}\n`);
        if (values.trace) for (const line of result.transcript) process.stdout.write(`     ${line}\n`);
      } else if (result.status === 'skipped' && !result.reason.startsWith('only for')) {
        process.stdout.write(`SKIP ${result.name}: ${result.reason}\n`);
      }
    },
  });
  if (values.record) recordVerified(cases, results);
  const count = (status) => results.filter((result) => result.status === status).length;
  const summary = `${count('passed')} passed, ${count('failed')} failed`;
  const skipped = count('skipped') > 0 ? `, ${count('skipped')} skipped` : '';
  (values.json ? process.stderr : process.stdout).write(`${summary}${skipped}\n`);
  return count('failed') > 0 || count('passed') === 0 ? 1 : 0;
}

// An exit, unlike a signal, ends the servers that were started.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`conformance: ${error.message}\n`);
  process.exitCode = 2;
}
