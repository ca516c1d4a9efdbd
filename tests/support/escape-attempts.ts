import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { SandboxRequest } from '../../src/protocol/sandbox.ts';
import {
  type EscapeFixture,
  type EscapeServer,
  type RunOptions,
  SECRET,
  UNTOUCHED,
} from './escape-fixture.ts';

/**
 * An escape attempt of a sandboxed program. Each has a file `T` of the host to change and a path `N` to create, in a directory `O` that is
 * not writable, and the workspace `W`.
 */
export interface Attempt {
  readonly name: string;
  /** Python statements. An exception counts as a refusal. The output is searched for secrets. */
  readonly python: string;
  /** Fails when the attempt had an effect other than on its file and its path. */
  readonly host?: (fixture: EscapeFixture, raised: string | null) => void;
}

/** The results of attempts, by name. */
export type AttemptReport = Readonly<Record<string, Outcome>>;

interface Outcome {
  /** The exception, or null when the attempt succeeded. */
  readonly raised: string | null;
  readonly output: string;
}

/**
 * Makes all attempts in one sandbox, one after the other. Each runs in its own process, so that a killed one does not affect the others.
 * Fails when one was not made. {@link expectUnharmed} checks the effects.
 */
export async function makeAttempts(
  fixture: EscapeFixture,
  server: EscapeServer,
  attempts: readonly Attempt[],
  sandbox: SandboxRequest | null,
  options: RunOptions = {},
): Promise<AttemptReport> {
  for (const { name } of attempts) fixture.file(targetOf(name));
  const bodies = attempts.map(({ name, python }) => [name, slug(name), python]);
  const env = { W: fixture.workspace, O: fixture.outside, ...options.env };
  const script = fixture.file('outside/attempts.py', driverOf(bodies));
  const ran = await server.run(['/usr/bin/python3', script], sandbox, { ...options, env });
  const report: Record<string, Outcome> = {};
  let output = '';
  for (const line of ran.stdout.split('\n')) {
    if (!line.startsWith(MARK)) {
      output += `${line}\n`;
      continue;
    }
    const [name, raised] = JSON.parse(line.slice(MARK.length)) as [string, string | null];
    report[name] = { raised, output };
    output = '';
  }
  expect(Object.keys(report), `${ran.stdout}\n${ran.stderr}`).toEqual(attempts.map(({ name }) => name));
  return report;
}

/** Fails when an attempt was not made, has printed a secret or had an effect on the host. */
export function expectUnharmed(
  fixture: EscapeFixture,
  report: AttemptReport,
  { name, host }: Pick<Attempt, 'name' | 'host'>,
): void {
  const { raised, output } = report[name]!;
  expect(output).not.toContain(SECRET);
  const target = join(fixture.path, targetOf(name));
  const stats = lstatSync(target);
  expect([stats.isFile(), stats.mode & 0o7777, stats.nlink]).toEqual([true, 0o644, 1]);
  expect(fixture.read(targetOf(name))).toBe(UNTOUCHED);
  expect(fixture.names('outside')).not.toContain(`new-${slug(name)}`);
  host?.(fixture, raised);
}

function targetOf(name: string): string {
  return `outside/${slug(name)}`;
}

/** The attempt's name in paths and in what it sends. In Python it is `P`. */
export function slug(name: string): string {
  return name.replace(/[^a-zA-Z0-9]+/g, '-');
}

const MARK = 'attempted: ';

function driverOf(attempts: readonly (readonly string[])[]): string {
  return DRIVER.replace('ATTEMPTS', () => JSON.stringify(JSON.stringify(attempts)));
}

/** The prelude of every attempt. Defines `libc` and `syscall(number, ...)`, which raises OSError. */
const DRIVER = `
import ctypes, errno, json, mmap, os, signal, socket, stat, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def syscall(number, *args):
    return checked(libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args]))
def write(path, text='escaped'):
    with open(path, 'w') as file: file.write(text)
def show(path):
    with open(path, 'rb') as file: print(file.read(4096))
W, O = os.environ['W'], os.environ['O']
for name, slug, body in json.loads(ATTEMPTS):
    T, N = O + '/' + slug, O + '/new-' + slug
    P = slug.encode()
    sys.stdout.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            exec(body)
            outcome = b''
        except BaseException as error:
            outcome = repr(error).encode() or b'?'
        sys.stdout.flush()
        os.write(writer, b'.' + outcome)
        os._exit(0)
    os.close(writer)
    outcome = b''
    while True:
        piece = os.read(reader, 65536)
        if not piece: break
        outcome += piece
    os.close(reader)
    _, status = os.waitpid(child, 0)
    text = outcome[1:].decode() if outcome else 'ended by signal %d' % (status & 127)
    print(${JSON.stringify(MARK)} + json.dumps([name, text or None]), flush=True)
`;
