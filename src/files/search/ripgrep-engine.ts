import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { constants as osConstants } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Readable } from 'node:stream';
import { uptimeMs } from '../../base/uptime.ts';
import { SEARCH_STDERR_BYTES, SEARCH_TURN_MS } from '../limits.ts';
import {
  childPath,
  lastName,
  type NativePath,
  nativePathOfText,
  parentPath,
  textOfName,
  textOfNativePath,
} from '../native-path.ts';
import { type EngineRun, EngineUnusable, type SearchTask } from './engine.ts';
import { invalidPattern, ripgrepPattern } from './pattern.ts';
import type { SearchQuery } from './query.ts';
import { RipgrepOutput } from './ripgrep-output.ts';

/** The path of ripgrep in the directories of a search path such as `PATH`; null if it is not installed. */
export async function findRipgrep(searchPath: string): Promise<string | null> {
  for (const folder of searchPath.split(':').filter((entry) => isAbsolute(entry))) {
    const program = join(folder, 'rg');
    try {
      await access(program, constants.X_OK);
      return program;
    } catch {
      // Try the next directory.
    }
  }
  return null;
}

/**
 * Searches with ripgrep. It runs in the searched directory, because its globs are relative to that. It is unusable when it does not
 * start, when an old version does not know an option, and for a path that is not UTF-8, which Node cannot pass as an argument.
 */
export function startRipgrep(
  program: string,
  { query, filter, isDirectory, collector }: SearchTask,
): EngineRun {
  const root = isDirectory ? query.path : parentPath(query.path);
  const target = isDirectory ? filter.ripgrepArguments : [];
  const file = isDirectory ? '' : textOfName(lastName(query.path));
  const child = launch(
    program,
    [...optionsFor(query), ...target, '--', ripgrepPattern(query), `./${file}`],
    root,
    query.path,
  );
  const stderr = collectStderr(child.stderr, () => collector.countUnreadable());
  const output = new RipgrepOutput(
    (path) => !isDirectory || filter.takesPath(path),
    (match) => collector.add({ ...match, path: childPath(root, match.path) }),
    (path) => collector.addIncomplete(childPath(root, path)),
  );
  const exited = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
    child.once('error', () => resolve());
  });
  const finished = new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      if (collector.isFull) return;
      const endsAtMs = uptimeMs() + SEARCH_TURN_MS;
      const rest = output.write(chunk, () => !collector.isFull && uptimeMs() < endsAtMs);
      if (collector.isFull) resolve();
      else if (rest.length > 0) continueLater(child.stdout, rest);
    });
    child.once('error', (error) => reject(new EngineUnusable(error.message)));
    child.once('close', () => (output.isComplete ? resolve() : reject(explain(stderr()))));
  });
  const stop = () => {
    child.kill('SIGKILL');
    child.stdout.destroy();
  };
  return { finished, exited, stop };
}

/** Delivers the rest of a chunk again in the next turn of the event loop. */
function continueLater(stream: Readable, rest: Buffer): void {
  stream.pause();
  stream.unshift(rest);
  setImmediate(() => stream.resume());
}

type Ripgrep = ChildProcessByStdio<null, Readable, Readable>;

function launch(program: string, args: readonly string[], root: NativePath, path: NativePath): Ripgrep {
  if (nativePathOfText(textOfNativePath(path)) !== path) throw new EngineUnusable('the path is not UTF-8');
  try {
    return spawn(program, args, {
      cwd: textOfNativePath(root),
      env: {},
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } catch (error) {
    throw new EngineUnusable(String(error));
  }
}

function optionsFor({ literal, caseSensitive, respectIgnoreFiles, maxResults }: SearchQuery): string[] {
  return [
    '--json',
    '--no-config',
    '--no-ignore-messages',
    // So that one file is read the same way as many.
    '--no-mmap',
    // The path filter handles hidden files.
    '--hidden',
    ...(respectIgnoreFiles ? ['--no-ignore-global', '--no-require-git'] : ['--no-ignore']),
    ...(literal ? ['--fixed-strings'] : []),
    caseSensitive ? '--case-sensitive' : '--ignore-case',
    // No file can contribute more. One more match shows that the result is truncated.
    '--max-count',
    String(maxResults + 1),
  ];
}

/** Collects the beginning of stderr and counts the files and directories that could not be read. */
function collectStderr(stream: Readable, unreadable: () => void): () => string {
  let text = '';
  let line = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    text = (text + chunk).slice(0, SEARCH_STDERR_BYTES);
    const lines = (line + chunk).split('\n');
    // Only the end of a line matters.
    line = lines.pop()!.slice(-SEARCH_STDERR_BYTES);
    for (const each of lines) if (isUnreadable(each)) unreadable();
  });
  return () => text;
}

/** Files come and go: ENOENT, ENOTDIR and ELOOP are no errors. */
function isUnreadable(message: string): boolean {
  const [, errno] = / \(os error (\d+)\)$/.exec(message) ?? [];
  return errno !== undefined && !GONE.has(Number(errno));
}

const { ENOENT, ENOTDIR, ELOOP } = osConstants.errno;
const GONE: ReadonlySet<number> = new Set([ENOENT, ENOTDIR, ELOOP]);

/** Why nothing was searched: ripgrep rejected the pattern, or it does not work. */
function explain(stderr: string): Error {
  const [, syntax] = /regex parse error:.*^error: ([^\n]*)/ms.exec(stderr) ?? [];
  if (syntax !== undefined) return invalidPattern(syntax);
  if (/not allowed in a regex/.test(stderr)) return invalidPattern(stderr.split('\n', 1)[0]!);
  return new EngineUnusable(stderr);
}
