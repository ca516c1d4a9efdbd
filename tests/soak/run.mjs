// npm run soak -- [--seconds N] [--connections N] [--processes N] [--seed S]
import { parseArgs } from 'node:util';
import { runSoak } from './soak.mjs';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '180' },
    connections: { type: 'string', default: '500' },
    processes: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
  },
});
const options = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value)]));
try {
  const report = (line) => process.stdout.write(`${line}\n`);
  const { drops, lines, restarts, requests } = await runSoak({ ...options, report });
  report(
    `${drops} drops and resumes, ${lines} lines, ${restarts} restarts, ${requests} other requests; nothing lost`,
  );
} catch (error) {
  process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
}
