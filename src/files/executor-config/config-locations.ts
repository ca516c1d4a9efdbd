import { homedir } from 'node:os';
import { FileError } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { childPath, type NativePath, nativePathOfText } from '../native-path.ts';

/** The directories that hold the configuration of this machine. */
export interface ConfigLocations {
  readonly userHome: NativePath;
  /** The user's configuration. It need not exist. */
  readonly codexHome: NativePath;
  /** The administrator's configuration for all users. */
  readonly system: NativePath;
}

/** The environment variables that determine the locations. */
export interface LocationVariables {
  readonly HOME?: string | undefined;
  readonly CODEX_HOME?: string | undefined;
}

/** Finds the locations. Throws FileError when CODEX_HOME is set to something that is not a directory. */
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
