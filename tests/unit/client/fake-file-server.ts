import type { CallOptions } from '../../../src/client/backend.ts';
import { asClientError } from '../../../src/client/connection/call-errors.ts';
import type { ClientError } from '../../../src/client/errors.ts';
import type { FileSystemClient } from '../../../src/client/files/remote-file-system.ts';
import { RpcError } from '../../../src/protocol/errors.ts';
import type {
  CallParamsOf,
  Method,
  Notification,
  NotificationParamsOf,
  ResultOf,
} from '../../../src/protocol/registry.ts';

/** The error of a client whose server has answered with an error. */
export function answered(code: number, message: string): ClientError {
  return asClientError(new RpcError(code, message), 'fs/x');
}

type Answer = () => Promise<unknown>;

/** A client with a fake server: it records every call and returns the answers that a test sets. */
export class FakeFileServer implements FileSystemClient {
  readonly calls: { readonly method: Method; readonly params: unknown; readonly options: CallOptions }[] = [];
  readonly capabilities: Readonly<Record<string, boolean>>;
  state: FileSystemClient['state'] = 'connected';
  readonly #answers = new Map<Method, Answer>();
  readonly #notificationListeners = new Set<(method: string, params: unknown) => void>();
  readonly #stateListeners = new Set<() => void>();
  #fallback: Answer | null = null;

  constructor(capabilities: readonly string[] = []) {
    this.capabilities = Object.fromEntries(capabilities.map((name) => [name, true]));
  }

  answer(method: Method, result: unknown): void {
    this.#answers.set(method, () => Promise.resolve(result));
  }

  answerInTurn(method: Method, results: readonly unknown[]): void {
    const left = [...results];
    this.#answers.set(method, () => Promise.resolve(left.shift()));
  }

  /** Methods without a configured answer succeed with an empty result. */
  answerAnything(): void {
    this.#fallback = () => Promise.resolve({});
  }

  refuse(method: Method, error: Error): void {
    this.#answers.set(method, () => Promise.reject(error));
  }

  /** Leaves calls unanswered until the returned function is called with the answer. */
  hold(method: Method): (result: unknown) => void {
    let release: (result: unknown) => void = () => {};
    const held = new Promise<unknown>((resolve) => {
      release = resolve;
    });
    this.#answers.set(method, () => held);
    return release;
  }

  /** Params of all calls of a method. */
  params(method: Method): unknown[] {
    return this.calls.filter((call) => call.method === method).map(({ params }) => params);
  }

  notify<N extends Notification>(method: N, params: NotificationParamsOf<N>): void {
    for (const listener of this.#notificationListeners) listener(method, params);
  }

  enter(state: FileSystemClient['state']): void {
    this.state = state;
    for (const listener of [...this.#stateListeners]) listener();
  }

  /** Number of listeners that were not removed. */
  get listeners(): number {
    return this.#notificationListeners.size + this.#stateListeners.size;
  }

  call<M extends Method>(
    method: M,
    params: CallParamsOf<M>,
    options: CallOptions = {},
  ): Promise<ResultOf<M>> {
    this.calls.push({ method, params, options });
    const answer = this.#answers.get(method) ?? this.#fallback;
    if (answer === null) throw new Error(`no answer configured for ${method}`);
    return answer() as Promise<ResultOf<M>>;
  }

  onNotification<N extends Notification>(
    method: N,
    listener: (params: NotificationParamsOf<N>) => void,
  ): () => void {
    const own = (name: string, params: unknown) => {
      if (name === method) listener(params as NotificationParamsOf<N>);
    };
    this.#notificationListeners.add(own);
    return () => this.#notificationListeners.delete(own);
  }

  onStateChange(listener: () => void): () => void {
    this.#stateListeners.add(listener);
    return () => this.#stateListeners.delete(listener);
  }
}
