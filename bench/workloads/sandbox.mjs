import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { median } from '../harness/statistics.mjs';
import { Connection } from '../wire/connection.mjs';
import { ratioAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { now, timed } from './pace.mjs';
import { TRUE } from './programs.mjs';

/** @type {import('./index.mjs').Workload[]} */
export const sandbox = [
  {
    name: 'sandbox-start',
    title: 'start in a workspace-write sandbox',
    rows: [
      { key: 'more', label: 'extra time, p50', unit: 'ms', better: 'lower' },
      ...latencyRows('ms', { label: 'start → closed' }),
      {
        key: 'moreAcknowledged',
        label: 'extra time with immediate acks, p50',
        unit: 'ms',
        better: 'lower',
        goal: ratioAtMost(0.15),
      },
      {
        key: 'p50Acknowledged',
        label: 'start → closed with immediate acks, p50',
        unit: 'ms',
        better: 'lower',
      },
    ],
    run: (context) =>
      inWorkspace(context, async (workspace) => {
        const usual = await startTimes(context, workspace, { acknowledge: false });
        const acknowledged = await startTimes(context, workspace, { acknowledge: true });
        return {
          ...latency(usual.sandboxed, 'ms'),
          more: median(usual.sandboxed) - median(usual.free),
          p50Acknowledged: median(acknowledged.sandboxed),
          moreAcknowledged: median(acknowledged.sandboxed) - median(acknowledged.free),
        };
      }),
  },
  {
    name: 'sandbox-write',
    title: 'fs/writeFile of 1 KB in a sandbox',
    rows: [
      ...latencyRows('ms', { p50: ratioAtMost(0.05) }),
      { key: 'first', label: 'first write of the server', unit: 'ms', better: 'lower' },
      {
        key: 'cold',
        label: 'first in another workspace, p50',
        unit: 'ms',
        better: 'lower',
        goal: ratioAtMost(2),
      },
    ],
    run: (context) => inWorkspace(context, (workspace) => writeTimes(context, workspace)),
  },
];

/** How long starts take without and with a sandbox. The starts alternate, so that other load affects both equally. */
async function startTimes({ url, quick }, workspace, { acknowledge }) {
  const connection = await Connection.ready(url, { acknowledge });
  const sandbox = workspaceWrite(workspace);
  let starts = 0;
  const start = async (sandbox) => {
    const began = now();
    const tracked = await connection.start(`s${starts++}`, TRUE, { sandbox });
    await tracked.finish({ bytes: 0 });
    return now() - began;
  };
  const free = [];
  const step = async (i) => {
    const took = await start(null);
    if (i >= 0) free.push(took);
    return await start(sandbox);
  };
  const pace = { warmUp: quick ? 1 : 5, min: quick ? 2 : 20, max: quick ? 2 : 300, seconds: 5 };
  const sandboxed = await timed(step, pace);
  connection.close();
  return { free, sandboxed };
}

async function writeTimes(context, workspace) {
  const { url, quick } = context;
  const connection = await Connection.ready(url);
  const dataBase64 = randomBytes(1024).toString('base64');
  const writeIn = async (folder) => {
    const path = pathToFileURL(join(folder, 'file')).href;
    await connection.call('fs/writeFile', { path, dataBase64, sandbox: workspaceWrite(folder) });
  };
  const began = now();
  await writeIn(workspace);
  const first = now() - began;
  const pace = { warmUp: quick ? 0 : 5, min: quick ? 2 : 20, max: quick ? 2 : 2_000, seconds: 4 };
  const samples = await timed(() => writeIn(workspace), pace);
  // Each of these has its own policy.
  const inAnother = () =>
    inWorkspace(context, async (another) => {
      const begun = now();
      await writeIn(another);
      return now() - begun;
    });
  const cold = median(await timed(inAnother, { max: quick ? 2 : 10, seconds: 4 }));
  return { first, ...latency(samples, 'ms'), cold };
}

/** The disk readable, the workspace writable, no network: the usual request of an agent. */
function workspaceWrite(workspace) {
  const uri = pathToFileURL(workspace).href;
  const special = (kind, access) => ({ path: { type: 'special', value: { kind } }, access });
  const entries = [special('root', 'read'), special('project_roots', 'write')];
  return {
    permissions: { type: 'managed', file_system: { type: 'restricted', entries }, network: 'restricted' },
    cwd: uri,
    workspaceRoots: [uri],
    windowsSandboxLevel: 'disabled',
  };
}

async function inWorkspace({ work }, measure) {
  const workspace = join(work, `workspace-${randomBytes(4).toString('hex')}`);
  mkdirSync(workspace);
  try {
    return await measure(workspace);
  } finally {
    rmSync(workspace, { recursive: true });
  }
}
