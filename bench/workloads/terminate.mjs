import { Connection } from '../wire/connection.mjs';
import { valueAtLeast } from './goals.mjs';
import { concurrently, now, sleep } from './pace.mjs';
import { SLEEP } from './programs.mjs';

const ANSWER_DEADLINE_MS = 10_000;
const POLL_MS = 20;

/** @type {import('./index.mjs').Workload[]} */
export const terminate = [
  {
    name: 'terminate-500',
    title: '500 pipelined terminates',
    timeoutSeconds: 120,
    rows: [
      {
        key: 'answered',
        label: 'answered in 10 s',
        unit: 'count',
        better: 'higher',
        goal: valueAtLeast(500),
      },
      { key: 'closed', label: 'processes closed', unit: 'count', better: 'higher', goal: valueAtLeast(500) },
      { key: 'last', label: 'until the last was closed', unit: 'ms', better: 'lower' },
    ],
    async run({ url, quick }) {
      const count = quick ? 20 : 500;
      const connection = await Connection.ready(url);
      const tracked = [];
      await concurrently(count, 16, async (i) => {
        tracked.push(await connection.start(`p${i}`, SLEEP));
      });
      return terminateAll(connection, tracked);
    },
  },
];

/** Counts the responses instead of requiring them: the reference stops answering, and its row shows it. */
async function terminateAll(connection, processes) {
  let answered = 0;
  let closed = 0;
  const began = now();
  for (const { id, closed: end } of processes) {
    end.then(
      () => closed++,
      () => {},
    );
    const done = (error) => {
      if (error === null) answered++;
    };
    connection.batch(() => connection.ask('process/terminate', { processId: id }, done));
  }
  const finished = () => answered === processes.length && closed === processes.length;
  while (!finished() && now() - began < ANSWER_DEADLINE_MS) await sleep(POLL_MS);
  return { answered, closed, last: now() - began };
}
