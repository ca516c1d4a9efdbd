// The measuring client: one process per measurement, started by run.mjs. It receives one message with
// its task and answers with one: `{ metrics }` or `{ failure }`.
import { WORKLOADS } from './workloads/index.mjs';

/** @param {{ name: string } & import('./workloads/index.mjs').Context} order */
async function measure({ name, ...context }) {
  const workload = WORKLOADS.find((candidate) => candidate.name === name);
  try {
    return { metrics: await workload.run(context) };
  } catch (error) {
    return { failure: error.message };
  }
}

process.once('message', async (/** @type {any} */ order) => {
  const outcome = await measure(order);
  process.send(outcome, () => process.exit(0));
});
// When the harness is gone or stops the client, the client stops the servers that it started.
process.once('disconnect', () => process.exit(1));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));
