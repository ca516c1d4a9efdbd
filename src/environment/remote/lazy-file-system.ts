import type { ExecutorFileSystem, FileChanges, FileOptions, FileWatch } from '../../client/backend.ts';
import type { LazyConnection, Lease } from './lazy-connection.ts';

/**
 * Files behind a connection that the first operation opens, or that no operation opens when `passive`. Each operation holds the
 * connection until its end.
 */
export function lazyFileSystem(
  connection: LazyConnection,
  { passive = false }: { readonly passive?: boolean } = {},
): ExecutorFileSystem {
  // Not async: the call would fall behind later calls of the same caller through other services.
  const lease = (options: FileOptions | undefined): Lease | Promise<Lease> =>
    passive ? connection.leaseNow() : connection.lease(options);

  const use = async <T>(
    options: FileOptions | undefined,
    operation: (files: ExecutorFileSystem, options: FileOptions) => Promise<T>,
  ): Promise<T> => {
    const leased = await lease(options);
    try {
      return await operation(leased.connection.files, { ...options, ...leased.options });
    } finally {
      leased.release();
    }
  };

  return {
    ...buildOperations(
      (name, position) =>
        (...args) =>
          use(args[position] as FileOptions | undefined, (files, options) => {
            const operation = files[name] as (...args: readonly unknown[]) => Promise<unknown>;
            return operation.call(files, ...args.slice(0, position), options);
          }),
    ),

    /** Copies the bytes: the caller may use its buffer again while the connection is opened. */
    writeFile: (path, bytes, options) => {
      const content = typeof bytes === 'string' ? bytes : new Uint8Array(bytes);
      return use(options, (files, rest) => files.writeFile(path, content, rest));
    },

    /** The time limit is for each block, and for the connection. */
    async *readFileStream(path, options) {
      const leased = await lease(options);
      try {
        yield* leased.connection.files.readFileStream(path, options);
      } finally {
        leased.release();
      }
    },

    /** The time limit belongs to the search and starts with it, after the connection is open. */
    search: async (path, pattern, options) => {
      const signal = options?.signal;
      return use(signal && { signal }, (files) => files.search(path, pattern, options));
    },

    watch: async (path, options) => {
      const leased = await lease(options);
      try {
        const watch = await leased.connection.files.watch(path, { ...options, ...leased.options });
        return new HeldWatch(watch, leased.release);
      } catch (error) {
        leased.release();
        throw error;
      }
    },

    /** The time limit is for each block, and for the connection. */
    replaceFile: (path, content, options) =>
      use(options, (files) => files.replaceFile(path, content, options)),
  };
}

function buildOperations(
  implement: (
    name: keyof ExecutorFileSystem,
    optionsPosition: number,
  ) => (...args: readonly unknown[]) => Promise<unknown>,
): ExecutorFileSystem {
  const entries = Object.entries(FILE_OPTIONS_POSITION).map(
    ([name, position]) => [name, implement(name as keyof ExecutorFileSystem, position)] as const,
  );
  return Object.fromEntries(entries) as unknown as ExecutorFileSystem;
}

/** The position of the options among the arguments of each operation, for code that forwards all of them. */
const FILE_OPTIONS_POSITION: {
  readonly [Name in keyof ExecutorFileSystem]: LastPosition<Required<Parameters<ExecutorFileSystem[Name]>>>;
} = {
  canonicalize: 1,
  readFile: 1,
  readFileText: 1,
  readFileStream: 1,
  writeFile: 2,
  createDirectory: 1,
  getMetadata: 1,
  readDirectory: 1,
  walk: 2,
  remove: 1,
  copy: 2,
  rename: 2,
  list: 1,
  setAttributes: 2,
  createLink: 2,
  hash: 1,
  search: 2,
  watch: 1,
  replaceFile: 2,
};

type LastPosition<Arguments extends readonly unknown[]> = Arguments extends readonly [unknown, ...infer Rest]
  ? Rest['length']
  : never;

/** A watch that keeps its connection until it ends. */
class HeldWatch implements FileWatch {
  readonly #watch: FileWatch;
  readonly #release: () => void;

  constructor(watch: FileWatch, release: () => void) {
    this.#watch = watch;
    this.#release = release;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<FileChanges> {
    try {
      yield* this.#watch;
    } finally {
      this.#release();
    }
  }

  async close(): Promise<void> {
    this.#release();
    await this.#watch.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
