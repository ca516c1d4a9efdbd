import { homedir } from 'node:os';
import { FileError } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { childPath, type NativePath, nativePathOfText } from '../native-path.ts';

/** Where the configuration of this machine is. */
export interface ConfigLocations {
  readonly userHome: NativePath;
  /** Where the user's own configuration is; it need not exist. */
  readonly codexHome: NativePath;
  /** Where the machine's administrator puts what concerns everybody. */
  readonly system: NativePath;
}

/** What decides about the places. */
export interface LocationVariables {
  readonly HOME?: string | undefined;
  readonly CODEX_HOME?: string | undefined;
}

/** Finds the places. Throws FileError when CODEX_HOME names something that is no directory: it was set on purpose. */
export async function findConfigLocations(
  files: FileSystem,
  variables: LocationVariables,
): Promise<ConfigLocations> {
  const userHome = nativePathOfText(variables.HOME || homedir());
  const codexHome = variables.CODEX_HOME
    ? await namedHome(files, variables.CODEX_HOME)
    : childPath(userHome, '.codex');
  return { userHome, codexHome, system: SYSTEM };
}

const SYSTEM = nativePathOfText('/etc/codex');

async function namedHome(files: FileSystem, text: string): Promise<NativePath> {
  const named = nativePathOfText(text);
  const refusal = (why: string) =>
    new FileError(
      'failed',
      `failed to find Codex home: CODEX_HOME points to ${JSON.stringify(text)}, but ${why}`,
    );
  try {
    const { isDirectory } = await files.getMetadata(named, { followSymlinks: true });
    if (!isDirectory) throw refusal('that path is not a directory');
    return await files.canonicalize(named);
  } catch (error) {
    if (error instanceof FileError && error.kind === 'notFound') throw refusal('that path does not exist');
    throw error;
  }
}
