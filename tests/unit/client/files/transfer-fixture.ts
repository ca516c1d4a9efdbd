import { afterAll } from 'vitest';
import type { ExecutorFileSystem } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { NodeFiles } from '../../../../src/client/files/node-files.ts';
import { LocalEnvironment } from '../../../../src/environment/local-environment.ts';
import { Scratch } from '../../files/local/scratch.ts';

/** A scratch directory, and the files of this machine as those of a server. For the beginning of a test file. */
export function transferFixture() {
  const environment = new LocalEnvironment();
  afterAll(() => environment.dispose());
  const scratch = new Scratch();
  const real = environment.fileSystem;
  return {
    environment,
    real,
    at: (name: string): string => scratch.at(name),
    /** The files of this machine, with some operations replaced. */
    filesWith: (operations: Partial<ExecutorFileSystem>): NodeFiles =>
      new NodeFiles({ fileSystem: { ...real, ...operations }, defaultDirectory: async () => null }),
  };
}

/** An operation that a server does not have. */
export async function unsupported(): Promise<never> {
  throw new ClientError('unsupported', 'the server cannot do that');
}
