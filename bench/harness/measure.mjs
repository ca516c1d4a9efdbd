import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { startSpec } from './servers.mjs';

const CLIENT = fileURLToPath(new URL('../client.mjs', import.meta.url));
const DEFAULT_TIMEOUT_SECONDS = 60;
const KILL_AFTER_MS = 2_000;

/** Ends the client that runs, if one does. */
let end = async () => {};

/** Ends the measurement that runs. The client then stops the programs that it started. Resolves when it has exited. */
export function endMeasurement() {
  return end();
}

/** @typedef {{ metrics?: Record<string, number>, failure?: string }} Outcome One of the two. */

/**
 * One measurement: a fresh server, a fresh client, one workload.
 * @param {import('../workloads/index.mjs').Workload} workload
 * @param {import('./servers.mjs').ServerSpec} spec
 * @param {{ quick: boolean, work: string }} options
 * @returns {Promise<Outcome>}
 */
export async function measure(workload, spec, { quick, work }) {
  const timeoutMs = (workload.timeoutSeconds ?? DEFAULT_TIMEOUT_SECONDS) * 1000;
  const order = { name: workload.name, quick, work, server: spec };
  if (workload.standalone) return runClient({ ...order, url: '', pid: 0 }, timeoutMs);
  let server;
  try {
    server = await startSpec(spec);
  } catch (error) {
    return { failure: error.message };
  }
  try {
    const outcome = await runClient({ ...order, url: server.url, pid: server.pid }, timeoutMs);
    if (server.child.exitCode === null && server.child.signalCode === null) return outcome;
    return { failure: `the server ended during the measurement: ${outcome.failure ?? 'all was done'}` };
  } finally {
    await server.stop();
  }
}

/**
 * Runs the client in its own process, which has exited when this resolves.
 * @param {{ name: string } & import('../workloads/index.mjs').Context} order
 * @param {number} timeoutMs
 * @returns {Promise<Outcome>}
 */
async function runClient(order, timeoutMs) {
  const env = { ...process.env };
  delete env.NODE_EXTRA_CA_CERTS;
  const client = fork(CLIENT, [], { env, stdio: ['ignore', 2, 2, 'ipc'] });
  const ended = new Promise((resolve) => client.once('exit', resolve));
  const stop = () => {
    if (client.exitCode === null && client.signalCode === null) client.kill('SIGKILL');
  };
  process.once('exit', stop);
  let timedOut = false;
  let killer;
  end = async () => {
    client.kill('SIGTERM');
    killer = setTimeout(stop, KILL_AFTER_MS);
    await ended;
  };
  const timer = setTimeout(() => {
    timedOut = true;
    void end();
  }, timeoutMs);
  let outcome = null;
  client.once('message', (message) => {
    outcome = message;
  });
  client.send(order);
  const code = await ended;
  clearTimeout(timer);
  clearTimeout(killer);
  process.off('exit', stop);
  end = async () => {};
  if (timedOut) return { failure: `not done after ${timeoutMs / 1000} s` };
  return outcome ?? { failure: `the client ended with code ${code}` };
}
