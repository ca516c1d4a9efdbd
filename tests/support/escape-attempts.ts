import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { SandboxRequest } from '../../src/protocol/sandbox.ts';
import { type EscapeScene, type EscapeServer, type RunOptions, SECRET, UNTOUCHED } from './escape-fixture.ts';

/**
 * Something that a sandboxed program tries. Each has a file `T` of the host to change and a path `N` to make something at, in a directory
 * `O` that is not writable, besides the workspace `W`.
 */
export interface Attempt {
  readonly name: string;
  /** Python statements. What they raise counts as a refusal, what they print is looked through for secrets. */
  readonly python: string;
  /** Fails when the attempt had an effect, besides one on its file and its path. */
  readonly host?: (scene: EscapeScene, raised: string | null) => void;
}

/** What attempts came to, by name. */
export type AttemptReport = Readonly<Record<string, Outcome>>;

interface Outcome {
  /** What was raised, or null when the attempt went through. */
  readonly raised: string | null;
  readonly output: string;
}

/**
 * Makes all attempts in one sandbox, one after the other, each in a process of its own so that one which is killed ends no other.
 * Fails when one was not made. What it has done is told by {@link expectUnharmed}.
 */
export async function makeAttempts(
  scene: EscapeScene,
  server: EscapeServer,
  attempts: readonly Attempt[],
  sandbox: SandboxRequest | null,
  options: RunOptions = {},
): Promise<AttemptReport> {
  for (const { name } of attempts) scene.file(targetOf(name));
  const bodies = attempts.map(({ name, python }) => [name, slug(name), python]);
  const env = { W: scene.workspace, O: scene.outside, ...options.env };
  const script = scene.file('outside/attempts.py', driverOf(bodies));
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

/** Fails when an attempt, which must have been made, has shown a secret or had an effect on the host. */
export function expectUnharmed(
  scene: EscapeScene,
  report: AttemptReport,
  { name, host }: Pick<Attempt, 'name' | 'host'>,
): void {
  const { raised, output } = report[name]!;
  expect(output).not.toContain(SECRET);
  const target = join(scene.path, targetOf(name));
  const stats = lstatSync(target);
  expect([stats.isFile(), stats.mode & 0o7777, stats.nlink]).toEqual([true, 0o644, 1]);
  expect(scene.read(targetOf(name))).toBe(UNTOUCHED);
  expect(scene.names('outside')).not.toContain(`new-${slug(name)}`);
  host?.(scene, raised);
}

function targetOf(name: string): string {
  return `outside/${slug(name)}`;
}

/** The attempt's name as a part of paths and as what it sends, there `P`. */
export function slug(name: string): string {
  return name.replace(/[^a-zA-Z0-9]+/g, '-');
}

const MARK = 'attempted: ';

function driverOf(attempts: readonly (readonly string[])[]): string {
  return DRIVER.replace('ATTEMPTS', () => JSON.stringify(JSON.stringify(attempts)));
}

/** `libc` and `syscall(number, ...)`, which raises OSError, are at hand in every attempt. */
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
