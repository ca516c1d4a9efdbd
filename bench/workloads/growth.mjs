import { percentile } from '../harness/statistics.mjs';
import { Connection } from '../wire/connection.mjs';
import { EchoTerminal } from './echo.mjs';
import { valueAtMost } from './goals.mjs';
import { concurrently, now, timed } from './pace.mjs';
import { MB, SLEEP, zerosOnCommand } from './programs.mjs';
import { startToClosed } from './starts.mjs';

/**
 * How much the cost of one unit may grow from the smallest to the worst point of a series.
 * @type {import('./index.mjs').Row}
 */
const FLAT = {
  key: 'worst',
  label: 'cost per unit, worst / first',
  unit: 'x',
  better: 'lower',
  goal: valueAtMost(1.3),
};

/** @type {import('./index.mjs').Workload[]} */
export const growth = [
  {
    name: 'growth-starts',
    title: 'growth: starts with live processes',
    timeoutSeconds: 180,
    rows: [...points([10, 100, 1_000], 'live', { unit: '/s', better: 'higher' }), FLAT],
    async run({ url, quick }) {
      const living = await Connection.ready(url);
      let live = 0;
      return series([10, 100, 1_000], quick, 'higher', async (wanted) => {
        const from = live;
        await concurrently(wanted - from, 16, (i) => living.start(`live${from + i}`, SLEEP));
        live = wanted;
        // A session may have a limit that also counts exited processes.
        const connection = await Connection.ready(url);
        const step = (i) => startToClosed(connection, `p${i}`);
        const limits = quick ? { max: 3, seconds: 1 } : { warmUp: 10, min: 30, max: 900, seconds: 2 };
        const samples = await timed(step, limits);
        return samples.length / (samples.reduce((sum, sample) => sum + sample, 0) / 1000);
      });
    },
  },
  {
    name: 'growth-connections',
    title: 'growth: echo p50 with open connections',
    timeoutSeconds: 120,
    rows: [...points([1, 100, 1_000], 'open', { unit: 'ms', better: 'lower' }), FLAT],
    async run({ url, quick }) {
      const terminal = await EchoTerminal.open(await Connection.ready(url));
      let open = 1;
      return series([1, 100, 1_000], quick, 'lower', async (wanted) => {
        await concurrently(wanted - open, 16, () => Connection.ready(url));
        open = wanted;
        return percentile(await terminal.measure(quick, { max: 400, seconds: 3 }), 0.5);
      });
    },
  },
  {
    name: 'growth-processes',
    title: 'growth: 512 MB from several processes',
    timeoutSeconds: 120,
    rows: [...points([1, 16, 128], 'printing', { unit: 'MB/s', better: 'higher' }), FLAT],
    async run({ url, quick }) {
      const connection = await Connection.ready(url);
      return series([1, 16, 128], quick, 'higher', (count, point) =>
        sharedRate(connection, count, (quick ? 4 : 512) * MB, point),
      );
    },
  },
];

function points(sizes, what, row) {
  return sizes.map((size) => ({ ...row, key: `at${size}`, label: `${size.toLocaleString('en')} ${what}` }));
}

/** Measures every point and how much the cost of one unit grows. Quick runs skip the large points. */
async function series(sizes, quick, better, measure) {
  const values = {};
  const costs = [];
  for (const size of sizes) {
    const value = await measure(quick ? Math.min(size, 16) : size, size);
    values[`at${size}`] = value;
    costs.push(better === 'lower' ? value : 1 / value);
  }
  return { ...values, worst: Math.max(...costs) / costs[0] };
}

/** Bytes per second over all processes, from the start signal to the last end. */
async function sharedRate(connection, count, totalBytes, point) {
  const bytes = totalBytes / count;
  const ids = Array.from({ length: count }, (_, i) => `s${point}.${i}`);
  const processes = await Promise.all(
    ids.map((id) => connection.start(id, zerosOnCommand(bytes), { pipeStdin: true })),
  );
  const began = now();
  connection.batch(() => {
    for (const processId of ids) {
      connection.ask('process/write', { processId, chunk: GO, writeId: '1' }, () => {});
    }
  });
  await Promise.all(processes.map((tracked) => tracked.finish({ bytes })));
  return totalBytes / MB / ((now() - began) / 1000);
}

const GO = Buffer.from('go\n').toString('base64');
