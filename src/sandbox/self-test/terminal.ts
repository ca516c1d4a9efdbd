import type { Spawner, SpawnSpec } from '../../process/spawn/spawner.ts';
import type { SandboxPolicy } from '../policy/policy.ts';
import type { Sandbox } from '../sandbox.ts';
import { type Check, missing, ok } from './check.ts';
import { runProgram } from './run-program.ts';

/** Checks whether a sandboxed program can have a controlling terminal. */
export async function checkTerminal(spawner: Spawner, sandbox: Pick<Sandbox, 'wrapProgram'>): Promise<Check> {
  if (!spawner.pty.available) return missing(NAME, spawner.pty.reason, null);
  const launch = await sandbox.wrapProgram(OPEN_TERMINAL, READ_ONLY, new AbortController().signal);
  const { code, output } = await runProgram(spawner, launch);
  return code === 0
    ? ok(NAME, 'sandboxed programs can have one')
    : missing(NAME, output || `the program exited with ${code}`, null);
}

const NAME = 'terminals';

const OPEN_TERMINAL: SpawnSpec = {
  program: '/bin/sh',
  argv: ['sh', '-c', 'test -t 0 && : >/dev/tty'],
  cwd: '/',
  env: {},
  io: { kind: 'pty', rows: 24, cols: 80 },
};

const READ_ONLY: SandboxPolicy = {
  disk: { base: 'read', platform: false, entries: [], denyGlobs: [] },
  network: 'restricted',
};
