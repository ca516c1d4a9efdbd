import { readFile, realpath } from 'node:fs/promises';
import { basename } from 'node:path/posix';
import { childPath, type NativePath, nativePathOfBytes, nativePathOfText } from '../../files/native-path.ts';
import type { HelperProgram } from '../file-helper-program.ts';
import { readElf } from './elf.ts';

/** What is mounted into a helper's sandbox for the helper itself, and how it is run there. */
export interface NodeRuntime {
  readonly mounts: readonly RuntimeMount[];
  /** The program to execute and its arguments. */
  readonly command: readonly string[];
}

export interface RuntimeMount {
  readonly source: NativePath;
  readonly path: NativePath;
}

/**
 * Where all of it lies. The policy may show nothing of the host, or deny the very directories that Node is in; the device files are
 * always in a directory of the sandbox's own, so that a place among them can be made without touching any other path.
 */
export const RUNTIME_DIRECTORY = nativePathOfBytes('/dev/.exec-server');

/**
 * The Node that runs this server, with its loader and libraries, and the helper's program. The loader is started by name because the
 * place that Node's executable names for it need not exist in the sandbox.
 */
export async function nodeRuntime(program: HelperProgram, executable: string): Promise<NodeRuntime> {
  const [{ interpreter }, libraries] = await Promise.all([readElf(executable), loadedLibraries()]);
  const mounts = [
    mount(executable, 'node'),
    mount(program.main, 'dist/bin/file-helper.cjs'),
    // Where the bundled program looks for it.
    mount(program.searchThread, 'dist/files/search/worker.js'),
  ];
  const node = [inside('node'), inside('dist/bin/file-helper.cjs')];
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

/** The libraries of this process by the names under which the loader looks for them. Whatever else is named like one is left out. */
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
