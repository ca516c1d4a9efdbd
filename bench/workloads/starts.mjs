import { percentile } from '../harness/statistics.mjs';
import { Connection } from '../wire/connection.mjs';
import { cpuSeconds } from '../wire/proc.mjs';
import { ratioAtLeast, ratioAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { concurrently, now, timed } from './pace.mjs';
import { TRUE } from './programs.mjs';

/** @type {import('./index.mjs').Workload[]} */
export const starts = [
  {
    name: 'start-pipe',
    title: 'start on pipes, one at a time',
    rows: [
      ...latencyRows('ms', { label: 'start → closed', p50: ratioAtMost(0.04) }),
      { key: 'answered', label: 'start answered p50', unit: 'ms', better: 'lower' },
      { key: 'rate', label: 'starts', unit: '/s', better: 'higher', goal: ratioAtLeast(25) },
      { key: 'first', label: 'first start of the server → closed', unit: 'ms', better: 'lower' },
    ],
    run: (context) => measureStarts(context, false),
  },
  {
    name: 'start-tty',
    title: 'start on a terminal, one at a time',
    rows: [
      ...latencyRows('ms', { label: 'start → closed', p50: ratioAtMost(0.04) }),
      { key: 'answered', label: 'start answered p50', unit: 'ms', better: 'lower' },
    ],
    run: (context) => measureStarts(context, true),
  },
  {
    name: 'start-32',
    title: 'start on pipes, 32 in flight',
    rows: [
      { key: 'rate', label: 'starts', unit: '/s', better: 'higher', goal: ratioAtLeast(8) },
      { key: 'cpu', label: 'server CPU per start', unit: 'ms', better: 'lower' },
    ],
    async run({ url, pid, quick }) {
      const connection = await Connection.ready(url);
      await concurrently(quick ? 2 : 32, 32, (i) => startToClosed(connection, `w${i}`));
      const count = quick ? 20 : 400;
      const before = cpuSeconds(pid);
      const began = now();
      await concurrently(count, 32, (i) => startToClosed(connection, `p${i}`));
      const rate = count / ((now() - began) / 1000);
      return { rate, cpu: ((cpuSeconds(pid) - before) / count) * 1000 };
    },
  },
];

async function measureStarts({ url, quick }, tty) {
  const connection = await Connection.ready(url);
  const began = now();
  await startToClosed(connection, 'first');
  const first = now() - began;
  const answered = [];
  const step = async (i) => {
    const began = now();
    const tracked = await connection.start(`p${i}`, TRUE, { tty });
    answered.push(now() - began);
    await tracked.finish({ bytes: 0 });
  };
  const samples = await timed(step, {
    warmUp: quick ? 1 : 10,
    min: quick ? 3 : 50,
    max: quick ? 3 : 1_000,
    seconds: 4,
  });
  const total = samples.reduce((sum, sample) => sum + sample, 0);
  return {
    first,
    ...latency(samples, 'ms'),
    answered: percentile(answered.slice(-samples.length), 0.5),
    rate: samples.length / (total / 1000),
  };
}

/** Starts a program that exits immediately and waits for all of its events. */
export async function startToClosed(connection, id) {
  const tracked = await connection.start(id, TRUE);
  await tracked.finish({ bytes: 0 });
  connection.processes.delete(id);
}
