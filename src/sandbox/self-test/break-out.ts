import type { Spawner, SpawnSpec } from '../../process/spawn/spawner.ts';
import type { SandboxedLaunch } from '../../process/start-program.ts';
import { SandboxError } from '../errors.ts';
import type { Sandbox } from '../sandbox.ts';
import { type Attempt, FORBIDDEN, PERMITTED } from './attempts.ts';
import { type Check, failed, ok, untested } from './check.ts';
import { type ProgramOutcome, runProgram } from './run-program.ts';
import { type Places, Scene } from './scene.ts';

/**
 * Tries to break out of a sandbox, in earnest: the same program makes the same attempts without a sandbox and within one. What fails
 * without one as well shows nothing about it. `node` is the executable that runs the program.
 */
export async function tryToBreakOut(
  spawner: Spawner,
  sandbox: Pick<Sandbox, 'wrapProgram'>,
  node: string,
): Promise<Check[]> {
  const free = await perform(spawner, node, async ({ spec }) => ({
    spec,
    denialDetector: null,
    release: null,
  }));
  const sandboxed = await perform(spawner, node, ({ spec, scene }) =>
    sandbox.wrapProgram(spec, scene.policy, new AbortController().signal),
  );
  return [permittedCheck(sandboxed), ...FORBIDDEN.map((attempt) => forbiddenCheck(attempt, free, sandboxed))];
}

/** What came of an attempt. */
type Result =
  | { readonly kind: 'succeeded' }
  | { readonly kind: 'stopped'; readonly by: string }
  /** It came to nothing because the program ended before, or was not even started. */
  | { readonly kind: 'notMade'; readonly because: string };

/** By the name of the attempt. */
type Results = ReadonlyMap<string, Result>;

type WrapInSandbox = (start: { readonly spec: SpawnSpec; readonly scene: Scene }) => Promise<SandboxedLaunch>;

const ATTEMPTS: readonly Attempt[] = [PERMITTED, ...FORBIDDEN];

const NOT_RELIABLE = 'do not rely on sandboxes on this machine, and report it';

function permittedCheck(sandboxed: Results): Check {
  const result = sandboxed.get(PERMITTED.name)!;
  return result.kind === 'succeeded'
    ? ok(PERMITTED.name, 'it may')
    : failed(PERMITTED.name, obstacleOf(result), null);
}

function forbiddenCheck({ name }: Attempt, free: Results, sandboxed: Results): Check {
  const [result, usual] = [sandboxed.get(name)!, free.get(name)!];
  if (result.kind === 'succeeded') return failed(name, 'it has succeeded inside a sandbox', NOT_RELIABLE);
  if (result.kind === 'notMade') return untested(name, `was not tried: ${result.because}`);
  return usual.kind === 'succeeded'
    ? ok(name, `stopped: ${result.by}`)
    : untested(name, `fails without a sandbox, too: ${obstacleOf(usual)}`);
}

function obstacleOf(result: Exclude<Result, { readonly kind: 'succeeded' }>): string {
  return result.kind === 'stopped' ? result.by : result.because;
}

async function perform(spawner: Spawner, node: string, wrapInSandbox: WrapInSandbox): Promise<Results> {
  const scene = await Scene.open(spawner);
  try {
    const { places } = scene;
    const run = async () =>
      runProgram(spawner, await wrapInSandbox({ spec: programSpec(node, places), scene }));
    const { code, output, complaint } = await run().catch(neverStarted);
    const told = new Map(output.split('\n').flatMap((line) => reportOf(line)));
    const silence = complaint.split('\n', 1)[0] || `the program ended with ${code} before it`;
    const results = new Map<string, Result>();
    for (const { name, effect } of ATTEMPTS) {
      const obstacle = told.get(name);
      const succeeded = effect === null ? obstacle === null : await effect(places);
      if (succeeded) results.set(name, { kind: 'succeeded' });
      else if (obstacle === undefined) results.set(name, { kind: 'notMade', because: silence });
      else results.set(name, { kind: 'stopped', by: obstacle ?? 'without effect' });
    }
    return results;
  } finally {
    await scene.close();
  }
}

function neverStarted(error: unknown): ProgramOutcome {
  if (error instanceof SandboxError) return { code: null, output: '', complaint: error.message };
  throw error;
}

function programSpec(node: string, places: Places): SpawnSpec {
  const task = JSON.stringify({ places, attempts: ATTEMPTS.map(({ name, code }) => [name, code]) });
  return {
    program: node,
    argv: [node, '-e', PROGRAM, task],
    cwd: places.workspace,
    env: { PATH: process.env.PATH ?? '' },
    io: { kind: 'pipe', stdin: 'closed' },
  };
}

/** A line of the program's report; nothing for any other line. */
function reportOf(line: string): [string, string | null][] {
  try {
    const [name, obstacle] = JSON.parse(line);
    return [[name, obstacle]];
  } catch {
    return [];
  }
}

/** Makes one attempt after the other and tells each result at once, because one of them may be its last. */
const PROGRAM = `
const fs = require('node:fs');
const net = require('node:net');
const { spawnSync } = require('node:child_process');
const { places, attempts } = JSON.parse(process.argv[1]);
const AsyncFunction = (async () => {}).constructor;

// The pipes of spawnSync are sockets, which are not to be had everywhere.
function run(program, ...args) {
  const file = places.workspace + '/complaint';
  const complaint = fs.openSync(file, 'w');
  const { error, status } = spawnSync(program, args, { stdio: ['ignore', 'ignore', complaint] });
  fs.closeSync(complaint);
  if (error) throw error;
  if (status !== 0) throw new Error(fs.readFileSync(file, 'utf8').split('\\n')[0] || program + ' exited with ' + status);
}

function connect(where) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(where, resolve);
    socket.once('error', reject);
    socket.setTimeout(2000, () => reject(new Error('nobody answers')));
  });
}

async function main() {
  for (const [name, code] of attempts) {
    let obstacle = null;
    try {
      await new AsyncFunction('places', 'fs', 'run', 'connect', code)(places, fs, run, connect);
    } catch (error) {
      obstacle = error.syscall ? error.code + ' (' + error.syscall + ')' : error.message;
    }
    fs.writeSync(1, JSON.stringify([name, obstacle]) + '\\n');
  }
  process.exit(0);
}
main();
`;
