import { Connection } from '../wire/connection.mjs';
import { residentBytes } from '../wire/proc.mjs';
import { ratioAtMost } from './goals.mjs';
import { concurrently, sleep } from './pace.mjs';
import { MB, SLEEP } from './programs.mjs';

const SETTLE_MS = 1_500;

/** @type {import('./index.mjs').Workload[]} */
export const memory = [
  {
    name: 'idle-rss',
    title: 'idle server',
    rows: [{ key: 'rss', label: 'RSS', unit: 'MB', better: 'lower', goal: ratioAtMost(0.85) }],
    async run({ url, pid, quick }) {
      await Connection.ready(url);
      await sleep(quick ? 100 : SETTLE_MS);
      return { rss: residentBytes(pid) / MB };
    },
  },
  {
    name: 'idle-connections',
    title: '1,000 idle connections',
    rows: [
      { key: 'each', label: 'RSS per connection', unit: 'KB', better: 'lower', goal: ratioAtMost(0.25) },
    ],
    async run({ url, pid, quick }) {
      const count = quick ? 20 : 1_000;
      const first = await Connection.ready(url);
      return growthPer(count, pid, quick, async () => {
        await concurrently(count, 16, () => Connection.ready(url));
        await first.call('environment/status');
      });
    },
  },
  liveProcesses('live-processes', '500 live processes on one connection', {
    tty: false,
    goal: ratioAtMost(0.5),
  }),
  liveProcesses('live-terminals', '500 live processes on terminals', { tty: true, goal: ratioAtMost(1) }),
];

/** @returns {import('./index.mjs').Workload} */
function liveProcesses(name, title, { tty, goal }) {
  return {
    name,
    title,
    rows: [{ key: 'each', label: 'RSS per process', unit: 'KB', better: 'lower', goal }],
    timeoutSeconds: 120,
    async run({ url, pid, quick }) {
      const count = quick ? 10 : 500;
      const connection = await Connection.ready(url);
      // The first start loads the code that every start needs.
      await connection.start('first', SLEEP, { tty });
      return growthPer(count, pid, quick, () =>
        concurrently(count, 16, (i) => connection.start(`live${i}`, SLEEP, { tty })),
      );
    },
  };
}

/** How much memory each of `count` objects created by `make` adds to the server. */
async function growthPer(count, pid, quick, make) {
  await sleep(quick ? 50 : SETTLE_MS);
  const before = residentBytes(pid);
  await make();
  await sleep(quick ? 50 : SETTLE_MS);
  return { each: (residentBytes(pid) - before) / count / 1024 };
}
