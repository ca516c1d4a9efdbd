// The commands that people type, compared with ssh on the same machine. Both sides take turns within one measurement.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { sshMissing, withSsh } from '../harness/ssh-fixture.mjs';
import { median, percentile } from '../harness/statistics.mjs';
import { valueAtLeast, valueAtMost } from './goals.mjs';
import { latencyRows } from './latency.mjs';
import { now, sleep } from './pace.mjs';
import { MB, zeros } from './programs.mjs';
import { randomFile } from './work-files.mjs';

/** @type {Pick<import('./index.mjs').Workload, 'against' | 'standalone' | 'unavailable'>} */
const COMPARED_WITH_SSH = { against: 'nothing', standalone: true, unavailable: sshMissing };

/** @type {import('./index.mjs').Workload[]} */
export const commands = [
  {
    ...COMPARED_WITH_SSH,
    name: 'command-run',
    title: 'exec-server run -- true',
    rows: [
      ...latencyRows('ms'),
      { key: 'ssh', label: 'ssh HOST true, p50', unit: 'ms', better: 'lower' },
      { key: 'share', label: 'of ssh', unit: 'x', better: 'lower', goal: valueAtMost(0.5) },
      { key: 'control', label: 'ssh with ControlMaster, p50', unit: 'ms', better: 'lower' },
      { key: 'controlShare', label: 'of that', unit: 'x', better: 'lower', goal: valueAtMost(5) },
    ],
    timeoutSeconds: 120,
    run: (context) => withUser(context, measureRun),
  },
  {
    ...COMPARED_WITH_SSH,
    name: 'command-stream',
    title: '512 MB from exec-server run to a file',
    rows: [
      ...rateRows('ssh', 1),
      { key: 'first', label: 'rate of the first run of a server', unit: 'MB/s', better: 'higher' },
    ],
    timeoutSeconds: 180,
    run: (context) => withUser(context, measureStream),
  },
  {
    ...COMPARED_WITH_SSH,
    name: 'command-copy',
    title: 'exec-server cp of 1 GB',
    rows: rateRows('scp', 0.8),
    timeoutSeconds: 300,
    run: (context) => withUser(context, (user, more) => measureCopy(user, more, 'up')),
  },
  {
    ...COMPARED_WITH_SSH,
    name: 'command-copy-back',
    title: 'exec-server cp of 1 GB from the server',
    rows: rateRows('scp', 0.8),
    timeoutSeconds: 300,
    run: (context) => withUser(context, (user, more) => measureCopy(user, more, 'down')),
  },
];

/** @param {string} other @param {number} limit @returns {import('./index.mjs').Row[]} */
function rateRows(other, limit) {
  return [
    { key: 'rate', label: 'rate', unit: 'MB/s', better: 'higher' },
    { key: 'ssh', label: other, unit: 'MB/s', better: 'higher' },
    {
      key: 'share',
      label: `of the rate of ${other}`,
      unit: 'x',
      better: 'higher',
      goal: valueAtLeast(limit),
    },
  ];
}

/**
 * A user with an empty home, whose private server runs, and an sshd.
 * @param {import('./index.mjs').Context} context
 * @param {(user: User, context: import('./index.mjs').Context) => Promise<Record<string, number>>} measure
 */
async function withUser(context, measure) {
  const { command, args } = context.server;
  const home = mkdtempSync(join(context.work, 'user-'));
  const runtime = join(home, 'run');
  mkdirSync(runtime, { mode: 0o700 });
  const env = { PATH: process.env.PATH, HOME: home, XDG_RUNTIME_DIR: runtime };
  const ours = (...words) => [command, [...args, ...words], env];
  const file = join(runtime, 'exec-server', 'server.json');
  const stop = () => void stopServer(file);
  process.once('exit', stop);
  try {
    // Starts the private server, which the following commands find.
    await timeOf(ours('run', '--', 'true'));
    return await withSsh(context.work, (ssh) => measure({ ours, ssh, folder: home }, context));
  } finally {
    process.off('exit', stop);
    await endServer(file);
    rmSync(home, { recursive: true, maxRetries: 5 });
  }
}

async function measureRun({ ours, ssh }, { quick }) {
  const [plain, shared] = [[], ['-S', ssh.control]].map((more) => [
    'ssh',
    [...ssh.options, '-p', ssh.port, ...more, ssh.destination, 'true'],
    process.env,
  ]);
  const sides = { ours: ours('run', '--', 'true'), ssh: plain, control: shared };
  const samples = { ours: [], ssh: [], control: [] };
  for (let i = 0; i < (quick ? 1 : 20); i++) {
    for (const [side, line] of Object.entries(sides)) samples[side].push(await timeOf(line));
  }
  const p50 = percentile(samples.ours, 0.5);
  const [other, control] = [median(samples.ssh), median(samples.control)];
  return {
    p50,
    p99: percentile(samples.ours, 0.99),
    ssh: other,
    share: p50 / other,
    control,
    controlShare: p50 / control,
  };
}

async function measureStream({ ours, ssh, folder }, { quick }) {
  const bytes = (quick ? 4 : 512) * MB;
  const program = zeros(bytes);
  const path = join(folder, 'output');
  const plain = ['ssh', [...ssh.options, '-p', ssh.port, ssh.destination, ...program], process.env];
  const stream = async (line) => {
    const file = openSync(path, 'w');
    const ms = await timeOf(line, file).finally(() => closeSync(file));
    return rateOf(path, bytes, ms);
  };
  const [run, other] = [() => stream(ours('run', '--', ...program)), () => stream(plain)];
  // The server compiles its code while it first runs. Later runs are what a private server is for.
  const first = await run();
  await other();
  return { ...(await inTurns(run, other)), first };
}

async function measureCopy({ ours, ssh, folder }, { quick, work }, direction) {
  const bytes = (quick ? 4 : 1024) * MB;
  const source = randomFile(work, bytes);
  const [mine, theirs] = [join(folder, 'mine'), join(folder, 'theirs')];
  const copy = async (line, path) => {
    rmSync(path, { force: true });
    return rateOf(path, bytes, await timeOf(line));
  };
  const ends = (there, target) =>
    direction === 'up' ? [source, `${there}:${target}`] : [`${there}:${source}`, target];
  const scp = ['-q', ...ssh.options, '-P', ssh.port, ...ends(ssh.destination, theirs)];
  const measured = await inTurns(
    () => copy(ours('cp', ...ends('local', mine)), mine),
    () => copy(['scp', scp, process.env], theirs),
  );
  await timeOf(['cmp', [source, mine], process.env]);
  return measured;
}

/** Two measurements of each side, a b b a. */
async function inTurns(ours, other) {
  const first = await ours();
  const others = [await other(), await other()];
  const rate = median([first, await ours()]);
  const ssh = median(others);
  return { rate, ssh, share: rate / ssh };
}

/** How long a command takes, in milliseconds. Throws when it fails. */
async function timeOf([program, args, env], stdout = 'ignore') {
  const began = now();
  const child = spawn(program, args, { env, stdio: ['ignore', stdout, 'pipe'] });
  // A command that outlives the benchmark would start a private server again.
  const kill = () => void child.kill('SIGKILL');
  process.once('exit', kill);
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const [code, signal] = await once(child, 'close');
  const ms = now() - began;
  process.off('exit', kill);
  if (code !== 0) throw new Error(`${program} ${args.join(' ')}: ${code ?? signal}: ${stderr.trim()}`);
  return ms;
}

/** Megabytes per second. Throws when the file is not complete. */
function rateOf(path, bytes, ms) {
  const { size } = statSync(path);
  if (size !== bytes) throw new Error(`${size} bytes of ${bytes} arrived`);
  return bytes / MB / (ms / 1000);
}

/** Stops the private server, if it runs. Returns its process id. */
function stopServer(file) {
  try {
    const { pid } = JSON.parse(readFileSync(file, 'utf8'));
    process.kill(pid, 'SIGTERM');
    return pid;
  } catch {
    // It has ended, or has never run.
    return undefined;
  }
}

/** Stops the private server and waits until it has ended. A zombie that no process has waited for has ended too. */
async function endServer(file) {
  const pid = stopServer(file);
  if (pid === undefined) return;
  try {
    while (!/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) await sleep(20);
  } catch {
    // It has ended.
  }
}

/**
 * @typedef {object} User
 * @property {(...words: string[]) => [string, string[], NodeJS.ProcessEnv]} ours A command line of the measured program.
 * @property {import('../harness/ssh-fixture.mjs').SshServer} ssh
 * @property {string} folder
 */
