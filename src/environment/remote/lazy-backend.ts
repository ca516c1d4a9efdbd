import type {
  CallOptions,
  ExecBackend,
  ExecProcess,
  StartOptions,
  StartParams,
} from '../../client/backend.ts';
import type { LazyConnection } from './lazy-connection.ts';

/** Starts processes through a connection that the first use opens. */
export class LazyBackend implements ExecBackend {
  readonly #connection: LazyConnection;

  constructor(connection: LazyConnection) {
    this.#connection = connection;
  }

  async defaultCwd(options?: CallOptions): Promise<string | null> {
    const lease = await this.#connection.lease(options);
    try {
      return (await lease.connection.backend.defaultCwd?.(lease.options)) ?? null;
    } finally {
      lease.release();
    }
  }

  async start(params: StartParams, options?: StartOptions): Promise<ExecProcess> {
    const lease = await this.#connection.lease(options);
    try {
      const process = await lease.connection.backend.start(params, { ...options, ...lease.options });
      this.#connection.holdFor(process);
      return process;
    } finally {
      lease.release();
    }
  }
}
