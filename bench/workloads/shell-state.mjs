import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Connection } from '../wire/connection.mjs';
import { ratioAtMost, valueAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { now, timed } from './pace.mjs';

/** A login that takes as long as one with a few version managers. */
const PROFILE = 'sleep 0.2\nexport PROFILE=read\n';
const SHELL = '/bin/bash';
const COMMAND = [SHELL, '-lc', '[ "$PROFILE" = read ]'];

/** @type {import('./index.mjs').Workload[]} */
export const shellState = [
  {
    name: 'shell-snapshot',
    title: 'login commands with a profile of 200 ms, in a captured state',
    rows: [
      { key: 'share', label: 'second as share of first', unit: 'x', better: 'lower', goal: valueAtMost(0.2) },
      { key: 'first', label: 'first → closed', unit: 'ms', better: 'lower' },
      ...latencyRows('ms', { label: 'later → closed', p50: ratioAtMost(0.6) }),
    ],
    run: (context) => inHome(context, (home) => measure(context, home)),
  },
];

async function measure({ url, quick }, home) {
  const connection = await Connection.ready(url);
  const shellSnapshot = { scopeId: 'bench', shell: { name: 'bash', path: SHELL } };
  const env = { HOME: home, PATH: '/usr/bin:/bin' };
  const step = async (i) => {
    const tracked = await connection.start(`s${i}`, COMMAND, { env, shellSnapshot });
    await tracked.finish({ bytes: 0 });
  };
  const took = async (i) => {
    const began = now();
    await step(i);
    return now() - began;
  };
  const first = await took('first');
  const second = await took('second');
  const pace = { warmUp: quick ? 0 : 5, min: quick ? 2 : 20, max: quick ? 2 : 300, seconds: 4 };
  return { first, share: second / first, ...latency(await timed(step, pace), 'ms') };
}

async function inHome({ work }, run) {
  const home = join(work, `home-${randomBytes(4).toString('hex')}`);
  mkdirSync(home);
  writeFileSync(join(home, '.bash_profile'), PROFILE);
  try {
    return await run(home);
  } finally {
    rmSync(home, { recursive: true });
  }
}
