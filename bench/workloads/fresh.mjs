import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Connection } from '../wire/connection.mjs';
import { base64Of } from './file-answers.mjs';
import { ratioAtLeast, ratioAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { concurrently, now, timed } from './pace.mjs';
import { startToClosed } from './starts.mjs';
import { randomFile } from './work-files.mjs';

const KB = 1024;

/** An agent makes a few hundred calls to a server. Nothing is warm then: neither the code nor the caches. */
const FIRST = 500;

/** @type {import('./index.mjs').Workload[]} */
export const fresh = [
  firstRequests('fresh-status', 'environment/status', ({ connection }) => ({
    step: async () => {
      const { status } = await connection.call('environment/status');
      if (status !== 'ready') throw new Error(`the status is ${status}`);
    },
  })),
  firstRequests('fresh-read', 'fs/readFile of 1 KB', ({ connection, work }) => {
    const path = randomFile(work, KB);
    const expected = base64Of(readFileSync(path)).toString();
    const params = { path: pathToFileURL(path).href };
    return {
      step: async () => {
        const { dataBase64 } = await connection.call('fs/readFile', params);
        if (dataBase64 !== expected) throw new Error('the file has a different content');
      },
    };
  }),
  firstRequests('fresh-write', 'fs/writeFile of 1 KB', ({ connection, work }) => {
    const path = join(work, 'fresh-written');
    const params = {
      path: pathToFileURL(path).href,
      dataBase64: randomBytes(KB).toString('base64'),
    };
    return {
      step: async () => {
        await connection.call('fs/writeFile', params);
      },
      end: () => {
        if (readFileSync(path, 'base64') !== params.dataBase64) throw new Error('the file was not written');
        rmSync(path);
      },
    };
  }),
  firstRequests('fresh-start', 'start of /bin/true on pipes', ({ connection }) => ({
    step: (i) => startToClosed(connection, `p${i}`),
  })),
  {
    name: 'fresh-50-connections',
    title: '50 concurrent connections to a new server',
    rows: [
      { key: 'all', label: 'all initialized', unit: 'ms', better: 'lower' },
      ...latencyRows('ms', { label: 'first 20 requests of each' }),
    ],
    async run({ url, quick }) {
      const began = now();
      const connections = await Promise.all(Array.from({ length: 50 }, () => Connection.ready(url)));
      const all = now() - began;
      const samples = [];
      await Promise.all(
        connections.map(async (connection) => {
          for (let i = 0; i < (quick ? 2 : 20); i++) {
            const asked = now();
            await connection.call('environment/status');
            samples.push(now() - asked);
          }
        }),
      );
      return { all, ...latency(samples, 'ms') };
    },
  },
  {
    name: 'connect-rate',
    title: 'connect, initialize, close; 8 concurrently',
    rows: [{ key: 'rate', label: 'connections', unit: '/s', better: 'higher', goal: ratioAtLeast(0.8) }],
    async run({ url, quick }) {
      const open = async () => (await Connection.ready(url)).close();
      await concurrently(quick ? 2 : 50, 8, open);
      const count = quick ? 10 : 1_000;
      const began = now();
      await concurrently(count, 8, open);
      return { rate: count / ((now() - began) / 1000) };
    },
  },
];

/**
 * The first requests of one kind that a server gets, without a warm-up.
 * @returns {import('./index.mjs').Workload}
 */
function firstRequests(name, what, prepare) {
  return {
    name,
    title: `the first ${FIRST} requests of a server: ${what}`,
    rows: latencyRows('ms', { p50: ratioAtMost(1.3) }),
    async run({ url, quick, work }) {
      const connection = await Connection.ready(url);
      const { step, end } = prepare({ connection, work });
      const samples = await timed(step, { min: 3, max: quick ? 3 : FIRST, seconds: 30 });
      end?.();
      return latency(samples, 'ms');
    },
  };
}
