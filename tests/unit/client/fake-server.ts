import { ExecServerClient } from '../../../src/client/client.ts';
import type { TransportOptions } from '../../../src/client/connection/connect-options.ts';
import { RpcError } from '../../../src/protocol/errors.ts';
import { createMemoryPair, type MemoryTransport } from '../../../src/transport/memory.ts';
import type { CloseReason, Transport } from '../../../src/transport/transport.ts';
import { waitFor } from '../../support/wait-for.ts';

export interface FakeRequest {
  readonly id: number;
  readonly method: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into params freely.
  readonly params: any;
}

type Answer = (params: FakeRequest['params'], link: FakeLink) => unknown;

/** An answer that never arrives. */
export const SILENCE = Symbol('silence');

/** A server that a test controls completely. Each connection to it is a link. */
export class FakeServer {
  readonly links: FakeLink[] = [];
  /** Answers by method. An RpcError is sent as an error. A method that is missing here gets no answer. */
  readonly answers: Record<string, Answer> = {
    initialize: () => ({ sessionId: 'session-1', environmentInfo: this.environmentInfo }),
    'process/start': ({ processId }) => ({ processId, sandboxType: 'none' }),
    'process/read': () => ({
      chunks: [],
      nextSeq: 1,
      exited: false,
      exitCode: null,
      closed: false,
      failure: null,
    }),
    'process/write': () => ({ status: 'accepted' }),
    'process/closeStdin': () => ({ status: 'closed' }),
    'process/terminate': () => ({ running: true }),
    'environment/status': () => ({ status: 'ready' }),
  };
  environmentInfo: unknown = {
    shell: { name: 'sh', path: '/bin/sh' },
    cwd: 'file:///work',
    capabilities: {
      processCloseStdin: true,
      processSignals: true,
      processResize: true,
      processTerminateModes: true,
    },
  };
  /** Error of the next connection attempts. */
  refusal: Error | null = null;
  attempts = 0;

  readonly open = async (): Promise<Transport> => {
    this.attempts++;
    if (this.refusal !== null) throw this.refusal;
    const [near, far] = createMemoryPair();
    this.links.push(new FakeLink(far, this));
    return near;
  };

  connect(options: Partial<TransportOptions> = {}): Promise<ExecServerClient> {
    return ExecServerClient.connect({
      open: this.open,
      resumable: true,
      recoveryWindowMs: 5_000,
      ...options,
    });
  }

  /** The newest connection. */
  get link(): FakeLink {
    return this.links.at(-1)!;
  }

  /** Requests of one method on all connections. */
  requests(method: string): FakeRequest[] {
    return this.links.flatMap((link) => link.requests.filter((request) => request.method === method));
  }

  async untilRequests(method: string, count: number): Promise<FakeRequest[]> {
    await waitFor(`${count} requests of ${method}`, () => this.requests(method).length >= count);
    return this.requests(method);
  }
}

/** One connection as the server sees it. */
export class FakeLink {
  readonly requests: FakeRequest[] = [];
  readonly notifications: string[] = [];
  /** Responses of the client. */
  readonly responses: unknown[] = [];
  closed: CloseReason | null = null;
  readonly transport: MemoryTransport;

  constructor(transport: MemoryTransport, server: FakeServer) {
    this.transport = transport;
    transport.open({
      message: (text) => {
        const message = JSON.parse(text);
        if (message.method === undefined) this.responses.push(message);
        else if (message.id === undefined) this.notifications.push(message.method);
        else this.#request(message, server);
      },
      undecodable: () => {},
      drained: () => {},
      ended: () => {},
      closed: (reason) => {
        this.closed = reason;
      },
    });
  }

  send(message: unknown): void {
    this.transport.send(typeof message === 'string' ? message : JSON.stringify(message));
  }

  respond(request: FakeRequest, result: unknown): void {
    this.send({ id: request.id, result });
  }

  output(processId: string, seq: number, text = `<${seq}>`): void {
    const chunk = Buffer.from(text).toString('base64');
    this.send({ method: 'process/output', params: { processId, seq, stream: 'stdout', chunk } });
  }

  exited(processId: string, seq: number, exitCode = 0): void {
    this.send({ method: 'process/exited', params: { processId, seq, exitCode } });
  }

  closedProcess(processId: string, seq: number): void {
    this.send({ method: 'process/closed', params: { processId, seq } });
  }

  /** Cuts the connection. */
  break(): void {
    this.transport.break();
  }

  #request(request: FakeRequest, server: FakeServer): void {
    this.requests.push(request);
    try {
      const answer = server.answers[request.method]?.(request.params, this) ?? SILENCE;
      if (answer !== SILENCE) this.respond(request, answer);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.send({ id: request.id, error: { code: error.code, message: error.message } });
    }
  }
}

/** Default start params. */
export const startParams = (processId = 'p') => ({
  processId,
  argv: ['x'],
  cwd: 'file:///',
  env: {},
  tty: false,
});

/** Starts a process `p` on a new fake server. */
export async function startedProcess(options: { readonly pipeStdin?: boolean } = {}) {
  const server = new FakeServer();
  const client = await server.connect();
  return { server, client, process: await client.backend.start({ ...startParams(), ...options }) };
}

/** A page of `process/read` with output of these sequence numbers. */
export function wirePage(nextSeq: number, seqs: readonly number[], rest: Record<string, unknown> = {}) {
  return {
    chunks: seqs.map((seq) => ({
      seq,
      stream: 'stdout',
      chunk: Buffer.from(`<${seq}>`).toString('base64'),
    })),
    nextSeq,
    exited: false,
    exitCode: null,
    closed: false,
    failure: null,
    ...rest,
  };
}
