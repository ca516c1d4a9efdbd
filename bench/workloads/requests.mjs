import { Connection } from '../wire/connection.mjs';
import { cpuSeconds } from '../wire/proc.mjs';
import { CLIENT_BUSY, clientShare } from './client-share.mjs';
import { ratioAtLeast, ratioAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { now, timed } from './pace.mjs';

/** The cheapest request: what remains is the round trip. */
const METHOD = 'environment/status';
const ANSWER = '"result":{"status":"ready"}}';

/** @type {import('./index.mjs').Row} */
const rate = { key: 'rate', label: 'rate', unit: '/s', better: 'higher' };

/** @type {import('./index.mjs').Row} */
const cpu = { key: 'cpu', label: 'server CPU per request', unit: 'µs', better: 'lower' };

/** @type {import('./index.mjs').Workload[]} */
export const requests = [
  {
    name: 'request-rtt',
    title: 'requests, one at a time',
    rows: latencyRows('µs', { label: 'round trip', p50: ratioAtMost(0.6), p99: ratioAtMost(1) }),
    async run({ url, quick }) {
      const connection = await Connection.ready(url);
      const step = () => new Promise((resolve, reject) => ask(connection, resolve, reject));
      const samples = await timed(step, {
        warmUp: quick ? 10 : 2_000,
        max: quick ? 100 : 10_000,
        seconds: 10,
      });
      return latency(samples, 'µs');
    },
  },
  {
    name: 'request-pipelined',
    title: 'requests, 64 in flight on one connection',
    rows: [{ ...rate, goal: ratioAtLeast(1.1) }, cpu, CLIENT_BUSY],
    async run({ url, pid, quick }) {
      const connections = [await Connection.ready(url)];
      await requestRate(connections, 64, quick ? 200 : 20_000);
      return measureRate(pid, connections, 64, quick ? 500 : 100_000);
    },
  },
  {
    name: 'request-50-connections',
    title: 'requests, one in flight on each of 50',
    rows: [{ ...rate, goal: ratioAtLeast(1.4) }, cpu, CLIENT_BUSY],
    async run({ url, pid, quick }) {
      const connections = await Promise.all(Array.from({ length: 50 }, () => Connection.ready(url)));
      await requestRate(connections, 1, quick ? 200 : 10_000);
      return measureRate(pid, connections, 1, quick ? 500 : 60_000);
    },
  },
];

async function measureRate(pid, connections, inFlight, count) {
  const share = clientShare();
  const before = cpuSeconds(pid);
  const rate = await requestRate(connections, inFlight, count);
  return { rate, cpu: ((cpuSeconds(pid) - before) / count) * 1e6, client: share() };
}

/** Responses per second over `count` requests, with `inFlight` of them pending on each connection. */
async function requestRate(connections, inFlight, count) {
  const began = now();
  await /** @type {Promise<void>} */ (
    new Promise((resolve, reject) => {
      let sent = 0;
      let answered = 0;
      const next = (connection) => {
        if (sent === count) return;
        sent++;
        ask(
          connection,
          () => {
            if (++answered === count) resolve();
            else next(connection);
          },
          reject,
        );
      };
      for (const connection of connections) {
        connection.batch(() => {
          for (let i = 0; i < inFlight; i++) next(connection);
        });
      }
    })
  );
  return count / ((now() - began) / 1000);
}

function ask(connection, answered, failed) {
  connection.ask(METHOD, undefined, (error, text) => {
    if (error === null && text.endsWith(ANSWER)) answered();
    else failed(error ?? new Error(`unexpected answer ${text}`));
  });
}
