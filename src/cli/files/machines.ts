import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { onAbort } from '../../base/abort.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { failedWith } from '../../client/files/file-errors.ts';
import type { TransferEnd } from '../../client/files/transfer/transfers.ts';
import { quoteValue } from '../../server/config/values.ts';
import { currentDirectory } from '../environments/current-directory.ts';
import { findTarget, LOCAL } from '../environments/target.ts';
import { UsageError } from '../failures.ts';
import { cannotReadFile } from '../file-failures.ts';
import { isServerGone, watchLine } from '../programs/line-watch.ts';
import { colonHint, type FileOperand, homeOf, namedBy, uriThere } from './operands.ts';

/** A path of a machine that is connected. */
export interface FileEnd extends TransferEnd {
  readonly operand: FileOperand;
  /** Equal for paths of the same machine. */
  readonly machine: string;
  /** The path as a `file:` URI. */
  readonly uri: string;
  /** Null where nothing is. `belowFile`: nothing can be there, because a file has the name of a directory above it. */
  readonly kind: 'file' | 'directory' | 'other' | 'belowFile' | null;
}

interface Machine {
  /** The name of the environment; of `:PATH` that of -E or of the default. */
  readonly name: string;
  readonly client: ExecServerClient;
  /** The directory where relative paths begin; null where the server does not say it. */
  readonly home: string | null;
}

interface MachineFlags {
  readonly environment?: string;
  readonly 'token-file'?: string;
}

/** The machines of a command line. Each is connected once, when its first path is needed. */
export class Machines {
  readonly #flags: MachineFlags;
  readonly #env: NodeJS.ProcessEnv;
  readonly #signal: AbortSignal;
  readonly #command: string;
  readonly #clients = new Map<string, Promise<Machine>>();
  readonly #ending = new AbortController();
  /** Whether the private server of this machine has ended. It cannot continue what it did. */
  isServerGone = false;

  constructor(command: string, flags: MachineFlags, env: NodeJS.ProcessEnv, signal: AbortSignal) {
    this.#command = command;
    this.#flags = flags;
    this.#env = env;
    this.#signal = signal;
    onAbort(signal, () => this.#ending.abort(signal.reason));
  }

  /**
   * Finds out what is at a path. `use` says what the first path of a machine is for: a server that drains lets a new client only read.
   * Rejects with UsageError for an unknown environment.
   */
  async end(operand: FileOperand, use: 'read' | 'write'): Promise<FileEnd> {
    const { environment, path } = operand;
    if (environment === null) {
      const kind = await stat(path).then(
        (stats) => (stats.isDirectory() ? 'directory' : stats.isFile() ? 'file' : 'other'),
        (error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOTDIR') return 'belowFile';
          if (error.code === 'ENOENT') return null;
          throw cannotReadFile(quoteValue(operand.text), error);
        },
      );
      return { operand, machine: LOCAL, uri: pathToFileURL(resolve(path)).href, files: null, path, kind };
    }
    const { name, client, home } = await this.#machine(operand, environment, use);
    const uri = uriThere(path, home);
    const kind = await client.files.stat(uri, { signal: this.#signal }).then(
      (info) => info.kind,
      (error: unknown) => {
        if (failedWith(error, 'notDirectory')) return 'belowFile';
        if (failedWith(error, 'notFound')) return null;
        throw error;
      },
    );
    return { operand, machine: name, uri, files: client.files, path: uri, kind };
  }

  /** Aborts when the command is interrupted, and when the private server of this machine has ended. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  async close(): Promise<void> {
    const clients = await Promise.allSettled(this.#clients.values());
    await Promise.all(clients.map((one) => (one.status === 'fulfilled' ? one.value.client.close() : null)));
  }

  #machine(operand: FileOperand, environment: string, use: 'read' | 'write'): Promise<Machine> {
    let machine = this.#clients.get(environment);
    if (machine === undefined) {
      machine = this.#connect(operand, environment, use);
      this.#clients.set(environment, machine);
    }
    return machine;
  }

  async #connect(operand: FileOperand, environment: string, use: 'read' | 'write'): Promise<Machine> {
    const { environment: chosen, 'token-file': tokenFile } = this.#flags;
    const sources = { env: this.#env, directory: currentDirectory() };
    const named = environment === '' ? { environment: chosen ?? null } : namedBy(operand);
    const target = await findTarget({ ...named, tokenFile: tokenFile ?? null }, sources).catch(
      (error: unknown) => {
        if (!(error instanceof UsageError)) throw error;
        throw new UsageError(`${error.message}${colonHint(operand)}`, this.#command);
      },
    );
    const client = await target.connect({
      clientName: `exec-server ${this.#command}`,
      signal: this.#signal,
      whileDraining: use === 'read',
    });
    const lost = async () => {
      if (!(await isServerGone(target, this.#env))) return;
      this.isServerGone = true;
      this.#ending.abort();
    };
    watchLine(client, { lost: () => void lost(), restored: () => {} });
    return { name: target.name, client, home: await homeOf(client, this.#signal) };
  }
}
