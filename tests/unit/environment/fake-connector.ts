import type {
  CallOptions,
  EnvironmentInfo,
  ExecBackend,
  ExecProcess,
  ExecutorFileSystem,
  ExecutorHttp,
  ProcessState,
  StartParams,
} from '../../../src/client/backend.ts';
import { ClientError } from '../../../src/client/errors.ts';
import type { ClientLike, Connection, Connector } from '../../../src/environment/remote/connection.ts';

/** A client whose state the test sets. */
export class FakeClient implements ClientLike {
  state: ClientLike['state'] = 'connected';
  failure: ClientError | null = null;
  environmentInfo: EnvironmentInfo | null = info('/bin/bash');
  /** The result of `environment/info`. */
  fetched: EnvironmentInfo | Error = info('/bin/zsh');
  fetchedOptions: CallOptions[] = [];
  /** The result of `environment/status`. A promise that never settles is a silent server. */
  alive: () => Promise<void> = async () => {};
  closed = false;
  readonly processes = {} as ClientLike['processes'];
  readonly recordings = {} as ClientLike['recordings'];
  readonly #listeners = new Set<Parameters<ClientLike['onStateChange']>[0]>();

  become(state: ClientLike['state'], failure: ClientError | null = null): void {
    this.state = state;
    this.failure = failure;
    for (const listener of [...this.#listeners]) listener(state, failure);
  }

  get listenerCount(): number {
    return this.#listeners.size;
  }

  onStateChange(listener: Parameters<ClientLike['onStateChange']>[0]): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  readonly call = (async (method: string, _params: unknown, options: CallOptions) => {
    if (method === 'environment/status') return this.alive();
    this.fetchedOptions.push(options);
    if (this.fetched instanceof Error) throw this.fetched;
    return this.fetched;
  }) as ClientLike['call'];

  async close(): Promise<void> {
    this.closed = true;
    this.become('closed');
  }
}

/** A process that the test ends. */
export class FakeProcess {
  state: ProcessState = {
    ...{ exited: false, exitCode: null, closed: false, sandboxDenied: false, failure: null },
    ...{ signal: null, timedOut: false, reason: null },
  };
  readonly #listeners = new Set<() => void>();

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  end(change: Partial<ProcessState>): void {
    this.state = { ...this.state, ...change };
    for (const listener of [...this.#listeners]) listener();
  }
}

/** One attempt of a {@link FakeConnector}. */
export class FakeAttempt {
  readonly signal: AbortSignal;
  readonly client = new FakeClient();
  readonly started: { params: StartParams; options: CallOptions | undefined }[] = [];
  readonly processes: FakeProcess[] = [];
  files = {} as ExecutorFileSystem;
  readonly http = {} as ExecutorHttp;
  succeed!: () => void;
  fail!: (error: Error) => void;
  readonly result: Promise<Connection>;

  constructor(signal: AbortSignal) {
    this.signal = signal;
    this.result = new Promise((resolve, reject) => {
      this.succeed = () => resolve(this.connection);
      this.fail = reject;
    });
  }

  get connection(): Connection {
    const attempt = this;
    const backend: ExecBackend = {
      async start(params, options) {
        attempt.started.push({ params, options });
        const process = new FakeProcess();
        attempt.processes.push(process);
        return process as unknown as ExecProcess;
      },
    };
    return {
      client: this.client,
      backend,
      get files() {
        return attempt.files;
      },
      http: this.http,
    };
  }
}

/** Records every attempt. The test settles each, or `respond` does immediately. */
export class FakeConnector implements Connector {
  readonly attempts: FakeAttempt[] = [];
  readonly reconnects: boolean;
  readonly eager: boolean;
  readonly retryWindowMs: number;
  respond: (attempt: FakeAttempt, number: number) => void = () => {};

  constructor({ reconnects = true, eager = true, retryWindowMs = 10_000 } = {}) {
    this.reconnects = reconnects;
    this.eager = eager;
    this.retryWindowMs = retryWindowMs;
  }

  /** Settles every attempt immediately. */
  static up(options?: { reconnects?: boolean; eager?: boolean; retryWindowMs?: number }): FakeConnector {
    const connector = new FakeConnector(options);
    connector.respond = (attempt) => attempt.succeed();
    return connector;
  }

  connect(signal: AbortSignal): Promise<Connection> {
    const attempt = new FakeAttempt(signal);
    this.attempts.push(attempt);
    this.respond(attempt, this.attempts.length);
    return attempt.result;
  }

  /** The newest attempt. */
  get last(): FakeAttempt {
    return this.attempts.at(-1)!;
  }
}

/** A transient failure. */
export function refused(message = 'connection refused'): ClientError {
  return new ClientError('connectFailed', message, { retryable: true });
}

/** A permanent failure. */
export function misconfigured(message = 'no such scheme'): ClientError {
  return new ClientError('config', message);
}

export function info(shellPath: string): EnvironmentInfo {
  return { shell: { name: shellPath.split('/').at(-1)!, path: shellPath }, capabilities: {} };
}

/** Runs all pending microtasks and immediates. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

/** The rejection of the promise. */
export async function failureOf(promise: Promise<unknown>): Promise<ClientError> {
  return promise.then(
    () => {
      throw new Error('it should have failed');
    },
    (error: unknown) => error as ClientError,
  );
}
