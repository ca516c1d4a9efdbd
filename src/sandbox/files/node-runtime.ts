import { readFile, realpath } from 'node:fs/promises';
import { basename } from 'node:path/posix';
import { embeddedFiles } from '../../base/embedded-files.ts';
import { childPath, type NativePath, nativePathOfBytes, nativePathOfText } from '../../files/native-path.ts';
import type { HelperProgram } from '../file-helper-program.ts';
import { readElf } from './elf.ts';

/** The mounts that a helper itself needs in its sandbox, and its command line there. */
export interface NodeRuntime {
  readonly mounts: readonly RuntimeMount[];
  /** The program to execute and its arguments. */
  readonly command: readonly string[];
}

interface RuntimeMount {
  readonly source: NativePath;
  readonly path: NativePath;
}

/**
 * The directory of the runtime in the sandbox. The policy may hide all files of the host, or deny the directories of Node. `/dev` always
 * belongs to the sandbox, so a directory in it affects no other path.
 */
export const RUNTIME_DIRECTORY = nativePathOfBytes('/dev/.exec-server');

/**
 * The Node executable of this server with its loader and libraries, and the helper's program. The single executable is its own helper. The
 * command names the loader explicitly, because the loader path in Node's executable may not exist in the sandbox.
 */
export async function nodeRuntime(
  program: HelperProgram,
  executable: string,
  embedded = embeddedFiles,
): Promise<NodeRuntime> {
  const [{ interpreter }, libraries] = await Promise.all([readElf(executable), loadedLibraries()]);
  const files = [
    mount(program.main, 'dist/bin/file-helper.cjs'),
    // The path where the helper expects it.
    mount(program.searchThread, 'dist/bin/file-search-thread.cjs'),
  ];
  const mounts = [mount(executable, 'node'), ...(embedded === null ? files : [])];
  const node = [inside('node'), ...(embedded?.fileHelper ?? [inside('dist/bin/file-helper.cjs')])];
  if (interpreter === null) return { mounts, command: node };
  return {
    mounts: [
      ...mounts,
      mount(await realpath(interpreter), 'loader'),
      ...[...libraries].map(([name, path]) => mount(path, `lib/${name}`)),
    ],
    command: [inside('loader'), '--library-path', inside('lib'), ...node],
  };
}

/** The libraries of this process, by the names that the loader uses. Skips other files that are named like a library. */
async function loadedLibraries(): Promise<Map<string, string>> {
  const maps = await readFile('/proc/self/maps', 'utf8');
  const paths = new Set(maps.split('\n').flatMap((line) => LIBRARY.exec(line)?.[1] ?? []));
  const libraries = await Promise.all(
    Array.from(paths, async (path): Promise<[string, string][]> => {
      const facts = await readElf(path).catch(() => null);
      return facts === null ? [] : [[facts.soname ?? basename(path), path]];
    }),
  );
  return new Map(libraries.flat());
}

/** The path of a mapped file that is named like a shared library. */
const LIBRARY = /\s(\/.*\.so(?:\.[\w.]+)?)(?: \(deleted\))?$/;

function mount(source: string, name: string): RuntimeMount {
  return { source: nativePathOfText(source), path: childPath(RUNTIME_DIRECTORY, name) };
}

function inside(name: string): string {
  return childPath(RUNTIME_DIRECTORY, name);
}
