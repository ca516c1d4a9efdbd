import { startSpec } from '../harness/servers.mjs';
import { median } from '../harness/statistics.mjs';
import { Connection } from '../wire/connection.mjs';
import { ratioAtMost } from './goals.mjs';
import { now } from './pace.mjs';

/** From exec to the response to `initialize`, each time with a new server. */
async function measureStartup({ server, quick }) {
  const samples = [];
  for (let i = 0; i < (quick ? 1 : 7); i++) {
    const began = now();
    const running = await startSpec(server);
    try {
      const connection = await Connection.open(running.url);
      await connection.initialize();
      samples.push(now() - began);
      connection.close();
    } finally {
      await running.stop();
    }
  }
  return { startup: median(samples) };
}

/** @type {import('./index.mjs').Row} */
const row = { key: 'startup', label: 'exec → initialize answered', unit: 'ms', better: 'lower' };

/** @type {import('./index.mjs').Workload[]} */
export const startup = [
  {
    name: 'startup-launcher',
    title: 'start-up, codex as npm installs it',
    against: 'launcher',
    standalone: true,
    rows: [{ ...row, goal: ratioAtMost(0.7) }],
    run: measureStartup,
  },
  {
    name: 'startup-native',
    title: 'start-up, codex as a native binary',
    standalone: true,
    rows: [row],
    run: measureStartup,
  },
];
