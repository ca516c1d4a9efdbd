import { printable } from '../../protocol/errors.ts';
import type { CallOptions, ExecBackend, ExecProcess, StartOptions, StartParams } from '../backend.ts';
import { lostCall } from '../connection/call-errors.ts';
import { CallLimit } from '../connection/call-limit.ts';
import { type Link, LinkEndedError } from '../connection/link.ts';
import { readStarted } from '../connection/server-messages.ts';
import { ClientError, withCallerStack } from '../errors.ts';
import { HELD_WINDOW_BYTES } from '../limits.ts';
import { windowOf } from './attach-requests.ts';
import { Attachment } from './attachment.ts';
import { type ClientHost, FROM_THE_BEGINNING, type ProcessHost, processHost } from './process-host.ts';
import type { NetworkHooks } from './process-routes.ts';
import { RemoteProcess } from './remote-process.ts';
import { startError } from './start-errors.ts';

/** Starts processes on a server. */
export class RemoteBackend implements ExecBackend {
  readonly #host: ClientHost;
  readonly #processHost: ProcessHost;
  /** Processes whose start was given up. The promise resolves when the process is terminated or was never started. */
  readonly #unwanted = new Map<Promise<void>, RemoteProcess>();

  constructor(host: ClientHost) {
    this.#host = host;
    this.#processHost = processHost(host);
  }

  async defaultCwd(options: CallOptions = {}): Promise<string | null> {
    try {
      return (await this.#host.info(options)).cwd ?? null;
    } catch (error) {
      if (error instanceof ClientError && error.kind === 'unsupported') return null;
      throw error;
    }
  }

  /**
   * Sends a start once. When the caller gives up or the answer is lost, the process is terminated as soon as
   * possible.
   */
  async start(params: StartParams, options: StartOptions = {}): Promise<ExecProcess> {
    const limit = new CallLimit(`starting ${printable(params.argv[0] ?? '')}`, options);
    try {
      for (;;) {
        const link = await this.#host.usableLink(limit.signal);
        // No other code runs between here and the send, so a link that is open now is the one that is used.
        if (link.end !== null) continue;
        return await this.#startOn(link, params, options, limit);
      }
    } catch (error) {
      throw withCallerStack(error);
    } finally {
      limit.end();
    }
  }

  /**
   * Resolves when no process runs whose start was given up; null when there is none. Terminates also those whose start is not answered
   * yet: after the client has closed, no answer can arrive.
   */
  endUnwanted(): Promise<unknown> | null {
    if (this.#unwanted.size === 0) return null;
    return Promise.all(
      [...this.#unwanted].flatMap(([ended, process]) => [ended, process.terminate().catch(() => {})]),
    );
  }

  async #startOn(
    link: Link,
    params: StartParams,
    hooks: NetworkHooks,
    limit: CallLimit,
  ): Promise<ExecProcess> {
    limit.signal?.throwIfAborted();
    if (params.networkProxy != null && this.#host.capabilities.networkProxyLaunch !== true) {
      throw new ClientError('unsupported', 'the server cannot give programs a network proxy', {
        hint: 'use a server that announces the capability networkProxyLaunch',
      });
    }
    const { routes } = this.#host;
    const held = params.holdOutput === true ? { windowBytes: HELD_WINDOW_BYTES } : {};
    const windowBytes = windowOf(this.#host.capabilities, held);
    const request = windowBytes === null ? params : { windowBytes, ...params };
    const attachment = Attachment.ofStart(request);
    const process = new RemoteProcess(this.#processHost, params.processId, attachment, {
      ...FROM_THE_BEGINNING,
      program: params.argv[0] ?? '',
      hasStdin: params.tty || params.pipeStdin === true,
    });
    routes.register(process, attachment, hooks);
    const starting = this.#send(link, process, request);
    try {
      await limit.race(starting);
      return process;
    } catch (error) {
      this.#giveUp(process, starting);
      throw error;
    }
  }

  async #send(link: Link, process: RemoteProcess, params: StartParams): Promise<void> {
    try {
      const { sandboxType, ref } = readStarted(await link.call('process/start', params));
      process.started(sandboxType, ref);
    } catch (error) {
      if (error instanceof LinkEndedError) {
        this.#giveUp(process, Promise.resolve());
        throw lostCall('process/start', error.end);
      }
      // Events of another process with the same id may have arrived in the meantime.
      process.abandon();
      this.#host.routes.unregister(process);
      throw startError(error, params);
    }
  }

  /**
   * Terminates a process that may not exist once its start is answered, unless the server has refused it. Tries until the server has
   * answered or the client has ended.
   */
  #giveUp(process: RemoteProcess, starting: Promise<void>): void {
    const end = async () => {
      process.abandon();
      await process.terminate().catch(() => {});
      this.#host.routes.unregister(process);
    };
    const ended: Promise<void> = starting.then(end, () => {}).then(() => void this.#unwanted.delete(ended));
    this.#unwanted.set(ended, process);
  }
}
