import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import type { Readable } from 'node:stream';
import { SEARCH_STDERR_BYTES } from '../limits.ts';
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

/** The ripgrep in the folders of a search path such as `PATH`; null if there is none. */
export async function findRipgrep(searchPath: string): Promise<string | null> {
  for (const folder of searchPath.split(':').filter((entry) => isAbsolute(entry))) {
    const program = join(folder, 'rg');
    try {
      await access(program, constants.X_OK);
      return program;
    } catch {
      // The next folder may have it.
    }
  }
  return null;
}

/**
 * Searches with ripgrep. It runs in the directory that is searched, because that is what its globs are tied to. It is unusable when
 * it does not start, when it does not know an option because it is old, and for a path that is not UTF-8, which Node cannot pass on.
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
  const complaints = gatherComplaints(child.stderr);
  const output = new RipgrepOutput(
    (path) => !isDirectory || filter.takesPath(path),
    (match) => collector.add({ ...match, path: childPath(root, match.path) }),
  );
  const gone = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
    child.once('error', () => resolve());
  });
  const finished = new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      if (collector.isFull) return;
      output.write(chunk);
      if (collector.isFull) resolve();
    });
    child.once('error', (error) => reject(new EngineUnusable(error.message)));
    child.once('close', () => (output.isComplete ? resolve() : reject(explain(complaints()))));
  });
  return { finished, gone, stop: () => void child.kill('SIGKILL') };
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
    '--no-messages',
    // Files are read alike whether one or many are searched.
    '--no-mmap',
    // Hidden files are up to the path filter.
    '--hidden',
    ...(respectIgnoreFiles ? ['--no-ignore-global', '--no-require-git'] : ['--no-ignore']),
    ...(literal ? ['--fixed-strings'] : []),
    caseSensitive ? '--case-sensitive' : '--ignore-case',
    // No file can contribute more; one more tells that there is more.
    '--max-count',
    String(maxResults + 1),
  ];
}

/** Reads the first complaints and drops the rest. */
function gatherComplaints(stream: Readable): () => string {
  let text = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    text = (text + chunk).slice(0, SEARCH_STDERR_BYTES);
  });
  return () => text;
}

/** Why nothing was searched: ripgrep did not understand the pattern, or something is wrong with it. */
function explain(complaints: string): Error {
  const [, syntax] = /regex parse error:.*^error: ([^\n]*)/ms.exec(complaints) ?? [];
  if (syntax !== undefined) return invalidPattern(syntax);
  if (/not allowed in a regex/.test(complaints)) return invalidPattern(complaints.split('\n', 1)[0]!);
  return new EngineUnusable(complaints);
}
