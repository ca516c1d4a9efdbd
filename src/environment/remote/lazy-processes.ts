import type { CallOptions, ExecProcess, TerminateMode } from '../../client/backend.ts';
import type { AttachOptions, ListOptions, ProcessInfo, SharedProcesses } from '../../client/sharing.ts';
import type { LazyConnection } from './lazy-connection.ts';

/** The processes of an executor, through a connection that the first use opens. */
export class LazyProcesses implements SharedProcesses {
  readonly #connection: LazyConnection;

  constructor(connection: LazyConnection) {
    this.#connection = connection;
  }

  list(options?: ListOptions): Promise<readonly ProcessInfo[]> {
    return this.#use(options, (processes, limits) => processes.list({ ...options, ...limits }));
  }

  get(refOrName: string, options?: CallOptions): Promise<ProcessInfo> {
    return this.#use(options, (processes, limits) => processes.get(refOrName, limits));
  }

  async attach(refOrName: string, options?: AttachOptions): Promise<ExecProcess> {
    const attach = async (processes: SharedProcesses, limits: CallOptions) => {
      const process = await processes.attach(refOrName, { ...options, ...limits });
      this.#connection.holdFor(process);
      return process;
    };
    return this.#use(options, attach);
  }

  signal(refOrName: string, signal: string, options?: CallOptions): Promise<void> {
    return this.#use(options, (processes, limits) => processes.signal(refOrName, signal, limits));
  }

  terminate(refOrName: string, mode?: TerminateMode, options?: CallOptions): Promise<boolean> {
    return this.#use(options, (processes, limits) => processes.terminate(refOrName, mode, limits));
  }

  forget(refOrName: string, options?: CallOptions): Promise<void> {
    return this.#use(options, (processes, limits) => processes.forget(refOrName, limits));
  }

  async #use<Result>(
    options: CallOptions | undefined,
    work: (processes: SharedProcesses, limits: CallOptions) => Promise<Result>,
  ): Promise<Result> {
    const lease = await this.#connection.lease(options);
    try {
      return await work(lease.connection.client.processes, lease.options);
    } finally {
      lease.release();
    }
  }
}
