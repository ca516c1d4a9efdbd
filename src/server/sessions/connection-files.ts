import { setMaxListeners } from 'node:events';
import { Semaphore } from '../../base/semaphore.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import { FileError, refused } from '../../files/errors.ts';
import { FileHandles } from '../../files/file-handles.ts';
import type { FileSystem } from '../../files/file-system.ts';
import { countHandles } from '../../files/file-system-wrappers.ts';
import { limitFileSystem } from '../../files/limited-file-system.ts';
import { MAX_BLOCK_BYTES } from '../../files/limits.ts';
import { PathOrder } from '../../files/path-order.ts';
import { uriFromPath } from '../../files/path-uri.ts';
import type { ChangeBatch } from '../../files/watch/change-list.ts';
import type { ConnectionWatches } from '../../files/watch/connection-watches.ts';
import type { MissingWatch } from '../../files/watch/watch-missing.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import type { NotificationParamsOf } from '../../protocol/registry.ts';
import type { SandboxContext } from '../../protocol/sandbox.ts';
import type { FileSandbox, FileSandboxes } from '../../sandbox/sandbox-enforcer.ts';
import { FixedBufferPool } from '../../transport/buffer-pool.ts';
import {
  BLOCK_POOL_SIZE,
  EARLIER_CHANGES_MS,
  FILE_OPERATIONS_PER_CONNECTION,
  TREE_OPERATIONS_PER_CONNECTION,
} from '../limits.ts';

/** The sandbox that a request asks for. */
interface RequestedSandbox {
  readonly sandbox?: SandboxContext | null | undefined;
}

/** Receives the events of file watches. */
interface FileEventPeer {
  readonly saturated: boolean;
  /** Whether the client is in this process. */
  readonly inProcess?: boolean;
  sendBulk(message: Uint8Array): void;
}

/** The open files, watches and file operations of one connection. All of them end with the connection. Watches are loaded on first use. */
export class ConnectionFiles {
  /** The files for requests without a sandbox, on a server without a minimum sandbox. */
  readonly #fileSystem: FileSystem;
  readonly order = new PathOrder();
  readonly blocks = BLOCKS;
  readonly handles: FileHandles;
  /** The server's search engine, shared by all connections. */
  readonly #search: FileSandbox['search'];
  readonly #fileSandboxes: FileSandboxes;
  readonly #bounded: (files: FileSystem) => FileSystem;
  readonly #peer: FileEventPeer;
  #missing: Promise<MissingWatch> | null = null;
  #watches: Promise<ConnectionWatches> | null = null;
  readonly #slots = new Semaphore(FILE_OPERATIONS_PER_CONNECTION);
  readonly #ended = new AbortController();

  /**
   * `enterHandle` is called before a file is opened through a handle. It throws to refuse, and returns a function to call at the end.
   * `files` are those that the client may access; `fileSandboxes` provides them for requests with a sandbox.
   */
  constructor(
    peer: FileEventPeer,
    search: FileSandbox['search'],
    enterHandle: () => () => void,
    files: FileSystem,
    fileSandboxes: FileSandboxes,
  ) {
    // Every waiting operation adds a listener; the dispatcher bounds their number.
    setMaxListeners(0, this.#ended.signal);
    // A client in this process may open as many files as the process may.
    this.handles = new FileHandles(BLOCKS, peer.inProcess ? Number.POSITIVE_INFINITY : undefined);
    const trees = new Semaphore(TREE_OPERATIONS_PER_CONNECTION);
    this.#bounded = (files) =>
      countHandles(limitFileSystem(files, { slots: this.#slots, trees }, this.#ended.signal), enterHandle);
    this.#fileSystem = this.#bounded(files);
    this.#fileSandboxes = fileSandboxes;
    this.#peer = peer;
    this.#search = search;
  }

  /** The files that a request may access. Throws when its sandbox is invalid. When it cannot be enforced, each operation fails. */
  under({ sandbox }: RequestedSandbox, access: 'read' | 'write'): FileSystem {
    const fileSandbox = this.#fileSandboxes.of(sandbox ?? null, access);
    return fileSandbox === null ? this.#fileSystem : this.#bounded(fileSandbox.fileSystem);
  }

  /** A search of the files that the request may read. */
  searchUnder({ sandbox }: RequestedSandbox): FileSandbox['search'] {
    return this.#fileSandboxes.of(sandbox ?? null, 'read')?.search ?? this.#search;
  }

  /** For methods that cannot be sandboxed and reveal only names: throws FileError when the sandbox hides a part of the disk. */
  requireAllReadable({ sandbox }: RequestedSandbox, method: string): void {
    if (this.#fileSandboxes.of(sandbox ?? null, 'read') === null) return;
    throw refused(
      `${method} cannot be restricted to a part of the disk; call it without a sandbox that hides files`,
    );
  }

  /** Resolves when the changes of earlier requests are done, or after a timeout (dead mount); null when there are none. */
  changesDone(): Promise<void> | null {
    const changes = this.order.changesDone();
    return changes && withTimeout(changes, EARLIER_CHANGES_MS);
  }

  /** Aborted with a FileError when the connection is closed. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  get missing(): Promise<MissingWatch> {
    this.#missing ??= this.#load(async () => {
      const { MissingWatch } = await import('../../files/watch/watch-missing.ts');
      return new MissingWatch(this.#slots);
    });
    return this.#missing;
  }

  get watches(): Promise<ConnectionWatches> {
    this.#watches ??= this.#load(async () => {
      const { ConnectionWatches } = await import('../../files/watch/connection-watches.ts');
      const peer = this.#peer;
      return new ConnectionWatches({
        ready: () => !peer.saturated,
        deliver: (watchId, batch) => peer.sendBulk(changedNotification(watchId, batch)),
      });
    });
    return this.#watches;
  }

  /** Sends the changes that were collected while bulk data waited, when it no longer does. */
  setPaused(paused: boolean): void {
    if (!paused) {
      this.#watches?.then(
        (watches) => watches.flush(),
        () => {},
      );
    }
  }

  /** While the client leaves responses unread, no file operation starts: those that are dispatched already could produce many more. */
  setHeld(held: boolean): void {
    this.#slots.setPaused(held);
  }

  /** Aborts all operations; unfinished replacements are discarded. */
  async dispose(): Promise<void> {
    this.#ended.abort(new FileError('failed', 'the connection has ended'));
    for (const loaded of [this.#missing, this.#watches]) {
      loaded?.then(
        (watch) => watch.dispose(),
        () => {},
      );
    }
    await this.handles.dispose();
  }

  async #load<T extends { dispose(): void }>(load: () => Promise<T>): Promise<T> {
    const loaded = await load();
    if (this.#ended.signal.aborted) loaded.dispose();
    return loaded;
  }
}

/** Buffers for blocks of files, shared by all connections. */
const BLOCKS = new FixedBufferPool(MAX_BLOCK_BYTES, BLOCK_POOL_SIZE);

function changedNotification(watchId: string, { changes, overflow }: ChangeBatch): Uint8Array {
  const params: NotificationParamsOf<'fs/changed'> = {
    watchId,
    changes: changes.map(({ path, kind }) => ({ path: uriFromPath(path), kind })),
    overflow,
  };
  return Buffer.from(encodeNotification('fs/changed', params));
}
