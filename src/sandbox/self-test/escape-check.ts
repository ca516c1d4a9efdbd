import { embeddedFiles } from '../../base/embedded-files.ts';
import type { Spawner, SpawnSpec } from '../../process/spawn/spawner.ts';
import type { SandboxedLaunch } from '../../process/start-program.ts';
import { SandboxError } from '../errors.ts';
import type { SandboxPolicy } from '../policy/policy.ts';
import type { Sandbox } from '../sandbox.ts';
import { type Check, failed, ok, untested } from './check.ts';
import { type Attempt, FORBIDDEN, FORBIDDEN_ON_WRITABLE_DISK, PERMITTED } from './escape-attempts.ts';
import { SelfTestFixture, type Targets } from './fixture.ts';
import { type ProgramOutcome, runProgram } from './run-program.ts';

/**
 * Tries to escape from real sandboxes. The same program makes the same attempts without a sandbox and inside of one. An attempt that also
 * fails without a sandbox proves nothing and counts as untested. `node` is the executable that runs the program.
 */
export async function checkEscapes(
  spawner: Spawner,
  sandbox: Pick<Sandbox, 'wrapProgram'>,
  node: string,
): Promise<Check[]> {
  const wrap = (spec: SpawnSpec, policy: SandboxPolicy) =>
    sandbox.wrapProgram(spec, policy, new AbortController().signal);
  const free = await perform(spawner, node, ATTEMPTS, async ({ spec }) => ({
    spec,
    denialDetector: null,
    release: null,
  }));
  const workspace = await perform(spawner, node, [PERMITTED, ...FORBIDDEN], ({ spec, fixture }) =>
    wrap(spec, fixture.policy),
  );
  const disk = await perform(spawner, node, FORBIDDEN_ON_WRITABLE_DISK, ({ spec, fixture }) =>
    wrap(spec, fixture.diskPolicy),
  );
  const sandboxed: Results = new Map([...workspace, ...disk]);
  const forbidden = [...FORBIDDEN_ON_WRITABLE_DISK, ...FORBIDDEN];
  return [permittedCheck(sandboxed), ...forbidden.map((attempt) => forbiddenCheck(attempt, free, sandboxed))];
}

/** The result of an attempt. */
type Result =
  | { readonly kind: 'succeeded' }
  | { readonly kind: 'stopped'; readonly by: string }
  /** The program exited before the attempt, or was not started. */
  | { readonly kind: 'notMade'; readonly because: string };

/** By the name of the attempt. */
type Results = ReadonlyMap<string, Result>;

type WrapInSandbox = (start: {
  readonly spec: SpawnSpec;
  readonly fixture: SelfTestFixture;
}) => Promise<SandboxedLaunch>;

/** Those that could kill the program come last. */
const ATTEMPTS: readonly Attempt[] = [PERMITTED, ...FORBIDDEN_ON_WRITABLE_DISK, ...FORBIDDEN];

const NOT_RELIABLE = 'do not rely on sandboxes on this machine, and report it';

function permittedCheck(sandboxed: Results): Check {
  const result = sandboxed.get(PERMITTED.name)!;
  return result.kind === 'succeeded'
    ? ok(PERMITTED.name, 'allowed')
    : failed(PERMITTED.name, reasonOf(result), null);
}

function forbiddenCheck({ name }: Attempt, free: Results, sandboxed: Results): Check {
  const [result, usual] = [sandboxed.get(name)!, free.get(name)!];
  if (result.kind === 'succeeded') return failed(name, 'it succeeded inside a sandbox', NOT_RELIABLE);
  if (result.kind === 'notMade') return untested(name, `not tried: ${result.because}`);
  return usual.kind === 'succeeded'
    ? ok(name, `stopped: ${result.by}`)
    : untested(name, `also fails without a sandbox: ${reasonOf(usual)}`);
}

function reasonOf(result: Exclude<Result, { readonly kind: 'succeeded' }>): string {
  return result.kind === 'stopped' ? result.by : result.because;
}

async function perform(
  spawner: Spawner,
  node: string,
  attempts: readonly Attempt[],
  wrapInSandbox: WrapInSandbox,
): Promise<Results> {
  const fixture = await SelfTestFixture.open(spawner);
  try {
    const { targets } = fixture;
    const run = async () =>
      runProgram(spawner, await wrapInSandbox({ spec: programSpec(node, attempts, targets), fixture }));
    const { code, output, stderr } = await run().catch(notStarted);
    const reports = new Map(output.split('\n').flatMap((line) => reportOf(line)));
    const noReport = stderr.split('\n', 1)[0] || `the program exited with ${code} before this attempt`;
    const results = new Map<string, Result>();
    for (const { name, effect } of attempts) {
      const failure = reports.get(name);
      const succeeded = effect === null ? failure === null : await effect(targets);
      if (succeeded) results.set(name, { kind: 'succeeded' });
      else if (failure === undefined) results.set(name, { kind: 'notMade', because: noReport });
      else results.set(name, { kind: 'stopped', by: failure ?? 'without effect' });
    }
    return results;
  } finally {
    await fixture.close();
  }
}

function notStarted(error: unknown): ProgramOutcome {
  if (error instanceof SandboxError) return { code: null, output: '', stderr: error.message };
  throw error;
}

function programSpec(node: string, attempts: readonly Attempt[], targets: Targets): SpawnSpec {
  const task = JSON.stringify({ targets, attempts: attempts.map(({ name, code }) => [name, code]) });
  return {
    program: node,
    argv: [node, ...(embeddedFiles?.evaluate ?? ['-e']), PROGRAM, task],
    cwd: targets.workspace,
    env: { PATH: process.env.PATH ?? '' },
    io: { kind: 'pipe', stdin: 'closed' },
  };
}

/** Parses a line of the program's report. Returns an empty list for any other line. */
function reportOf(line: string): [string, string | null][] {
  try {
    const [name, failure] = JSON.parse(line);
    return [[name, failure]];
  } catch {
    return [];
  }
}

/** Makes the attempts in order. Reports each result immediately, because an attempt may kill the program. */
const PROGRAM = `
const fs = require('node:fs');
const net = require('node:net');
const { spawnSync } = require('node:child_process');
const { targets, attempts } = JSON.parse(process.argv[1]);
const AsyncFunction = (async () => {}).constructor;

// The pipes of spawnSync are sockets, which a sandbox may forbid.
function run(program, ...args) {
  const file = targets.workspace + '/stderr';
  const stderr = fs.openSync(file, 'w');
  const { error, status } = spawnSync(program, args, { stdio: ['ignore', 'ignore', stderr] });
  fs.closeSync(stderr);
  if (error) throw error;
  if (status !== 0) throw new Error(fs.readFileSync(file, 'utf8').split('\\n')[0] || program + ' exited with ' + status);
}

function connect(where) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(where, resolve);
    socket.once('error', reject);
    socket.setTimeout(2000, () => reject(new Error('no answer')));
  });
}

async function main() {
  for (const [name, code] of attempts) {
    let failure = null;
    try {
      await new AsyncFunction('targets', 'fs', 'run', 'connect', code)(targets, fs, run, connect);
    } catch (error) {
      failure = error.syscall ? error.code + ' (' + error.syscall + ')' : error.message;
    }
    fs.writeSync(1, JSON.stringify([name, failure]) + '\\n');
  }
  process.exit(0);
}
main();
`;
