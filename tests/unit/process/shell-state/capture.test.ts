import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ProgramRequest } from '../../../../src/process/program-request.ts';
import { captureLoginState } from '../../../../src/process/shell-state/capture.ts';
import {
  CAPTURE_TIMEOUT_MS,
  MAX_EXPORTED_BYTES,
  MAX_SESSION_STATE_BYTES,
  MAX_STATE_BYTES,
  MAX_STATE_IN_VARIABLES_BYTES,
} from '../../../../src/process/shell-state/limits.ts';
import type { LoginCommand } from '../../../../src/process/shell-state/login-command.ts';
import { loginStateOf } from '../../../../src/process/shell-state/login-state.ts';
import { restoredSpec } from '../../../../src/process/shell-state/restore.ts';
import { ShellStates } from '../../../../src/process/shell-state/shell-states.ts';
import type { SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { FakeChild, FakeSpawner } from '../fake-child.ts';

const SPEC: SpawnSpec = {
  program: '/bin/bash',
  argv: ['/bin/bash', '-lc', 'x'],
  cwd: '/',
  env: {},
  io: { kind: 'pipe', stdin: 'closed' },
};
const PROGRAM: ProgramRequest = {
  argv: SPEC.argv,
  arg0: null,
  env: {},
  io: SPEC.io,
  envPolicy: null,
  metadata: null,
};
const NEVER = new AbortController().signal;
const settled = () => new Promise(setImmediate);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});

afterEach(() => {
  vi.useRealTimers();
});

function command(scopeId = 's'): LoginCommand {
  return { kind: 'bash', scopeId, program: PROGRAM };
}

/** Simulates a login shell: prints what the script asks for, with functions of a given size. */
async function answer(
  spawner: FakeSpawner,
  functions: string,
  options: { end?: boolean } = {},
): Promise<FakeChild> {
  await settled();
  const { spec } = spawner.starts.at(-1)!;
  const mark = /'\\0%s\\0' ([0-9a-f]{32})/.exec(spec.argv[2]!)![1];
  const child = new FakeChild();
  spawner.succeed(child);
  await settled();
  child.stdout.write(`noise\0${mark}\0set -o noglob\n\0\0${functions}\0\0\0A=1\0\0${mark}\0`);
  if (options.end !== false) child.exit(0);
  return child;
}

test('kills a shell that times out and returns no state', async () => {
  const spawner = new FakeSpawner();
  const captured = captureLoginState('bash', SPEC, { spawner, wrapInSandbox: null }, NEVER);
  await settled();
  const child = new FakeChild();
  spawner.succeed(child);
  await settled();
  vi.advanceTimersByTime(CAPTURE_TIMEOUT_MS - 1);
  await settled();
  expect(child.killed).toBe(0);
  vi.advanceTimersByTime(1);
  expect(await captured).toBeNull();
  expect([child.killed, child.released]).toEqual([1, 1]);
});

test('kills a shell that does not exit after its state is complete, and uses the state', async () => {
  const spawner = new FakeSpawner();
  const captured = captureLoginState('bash', SPEC, { spawner, wrapInSandbox: null }, NEVER);
  const child = await answer(spawner, 'f () { :; }', { end: false });
  await settled();
  expect(child.killed).toBe(0);
  vi.advanceTimersByTime(CAPTURE_TIMEOUT_MS);
  expect((await captured)?.exported).toEqual({ A: '1' });
  expect([child.killed, child.released]).toEqual([1, 1]);
});

test('does not kill a shell that exits, so that its background processes survive', async () => {
  const spawner = new FakeSpawner();
  const captured = captureLoginState('bash', SPEC, { spawner, wrapInSandbox: null }, NEVER);
  const child = await answer(spawner, '');
  expect((await captured)?.script.toString()).toContain('set -o noglob\n');
  expect([child.killed, child.released]).toEqual([0, 1]);
});

test('kills a shell that prints too much', async () => {
  const spawner = new FakeSpawner();
  const captured = captureLoginState('bash', SPEC, { spawner, wrapInSandbox: null }, NEVER);
  const child = await answer(spawner, 'x'.repeat(MAX_STATE_BYTES + MAX_EXPORTED_BYTES), { end: false });
  expect(await captured).toBeNull();
  expect(child.killed).toBe(1);
});

test('keeps the states of a session within their limit', async () => {
  const spawner = new FakeSpawner();
  const states = new ShellStates(spawner);
  const context = { spec: SPEC, sandbox: null, wrapInSandbox: null };
  const large = 'x'.repeat(MAX_STATE_BYTES - 1_000);
  const kept = Math.floor(MAX_SESSION_STATE_BYTES / large.length);
  for (let index = 0; index <= kept; index++) {
    const restored = states.restored(command(`${index}`), context, NEVER);
    await answer(spawner, large);
    await restored;
  }
  await states.restored(command(`${kept}`), context, NEVER);
  expect(spawner.starts).toHaveLength(kept + 1);
  const again = states.restored(command('0'), context, NEVER);
  await answer(spawner, large);
  await again;
  expect(spawner.starts).toHaveLength(kept + 2);
});

test('returns no state when parts are missing or too large', () => {
  const parts = (functions: string, variables: string) =>
    loginStateOf('bash', Buffer.from(`set -o a\n\0shopt -s b\n\0${functions}\0\0\0${variables}`));
  expect(loginStateOf('bash', Buffer.from('set -o a\n\0'))).toBeNull();
  expect(parts('f', 'A=1\0')).not.toBeNull();
  expect(parts('x'.repeat(MAX_STATE_BYTES), 'A=1\0')).toBeNull();
  expect(parts('f', 'A=1\0'.repeat(MAX_EXPORTED_BYTES / 4 + 1))).toBeNull();
  expect(parts('f', `A=${'x'.repeat(128 * 1024)}\0`)).toBeNull();
});

test('accepts any name of an exported variable', () => {
  const variables = '__proto__=x\0constructor=y\0';
  const state = loginStateOf('bash', Buffer.from(`set -o a\n\0shopt -s b\n\0f\0\0\0${variables}`));
  expect(Object.entries(state!.exported)).toEqual([
    ['__proto__', 'x'],
    ['constructor', 'y'],
  ]);
});

test('runs a script of the maximum length unchanged', () => {
  const state = { script: Buffer.from(''), exported: {}, bytes: 0 };
  const of = (length: number) => {
    const argv = ['/bin/bash', '-lc', 'x'.repeat(length)];
    return restoredSpec({ ...SPEC, argv }, command(), state, 'descriptor');
  };
  expect(of(128 * 1024 - 100)).not.toBeNull();
  expect(of(128 * 1024 - 10)).toBeNull();
});

test('does not pass a state that is too large for variables, and does not split surrogate pairs', () => {
  const state = (text: string) => ({ script: Buffer.from(text), exported: {}, bytes: 0 });
  const of = (text: string) => restoredSpec(SPEC, command(), state(text), 'variables');
  const text = `${'😀é'.repeat(30_000)}x`;
  const variables = Object.values(of(text)!.env);
  expect(variables.join('')).toBe(text);
  expect(variables.length).toBeGreaterThan(1);
  for (const value of variables) expect(Buffer.from(value).toString()).toBe(value);
  expect(of('x'.repeat(MAX_STATE_IN_VARIABLES_BYTES + 1))).toBeNull();
  const bytes = { script: Buffer.from([0xff]), exported: {}, bytes: 0 };
  expect(restoredSpec(SPEC, command(), bytes, 'variables')).toBeNull();
  expect(restoredSpec(SPEC, command(), bytes, 'descriptor')?.inherited?.[0]).toEqual(
    Buffer.from('exec 3<&-\n\xff', 'latin1'),
  );
});
