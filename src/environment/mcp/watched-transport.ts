import { McpStdioTransport } from './stdio-transport.ts';
import type { McpTransport } from './transport.ts';

/** Passes everything to another transport, and reports when the server behind it has ended and why. */
export class WatchedTransport implements McpTransport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((...message: [object]) => void) | undefined;
  /** Resolves with the reason when the server ends, or its session does. */
  readonly ended: Promise<Error>;
  readonly #inner: McpTransport;
  #end!: (reason: Error) => void;
  #endReason: Error | null = null;
  #lastError: Error | null = null;

  constructor(inner: McpTransport) {
    this.#inner = inner;
    this.ended = new Promise((resolve) => {
      this.#end = (reason) => {
        this.#endReason ??= reason;
        resolve(this.#endReason);
      };
    });
    inner.onclose = () => {
      this.#end(this.#lastError ?? exitOf(inner));
      this.onclose?.();
    };
    inner.onerror = (error) => {
      this.#lastError = error;
      this.onerror?.(error);
    };
    // Other transports pass more than the message.
    inner.onmessage = (...message) => {
      this.#lastError = null;
      this.onmessage?.(...message);
    };
  }

  /** Null while the server runs. */
  get endReason(): Error | null {
    return this.#endReason;
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId;
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion?.(version);
  }

  start(): Promise<void> {
    return this.#inner.start();
  }

  async send(...message: [object]): Promise<void> {
    try {
      await this.#inner.send(...message);
    } catch (error) {
      // The protocol requires a new session.
      if (this.#inner.sessionId !== undefined && (error as { code?: unknown }).code === 404) {
        this.#end(new Error('the server has ended the session'));
      }
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}

function exitOf(transport: McpTransport): Error {
  const exitCode = transport instanceof McpStdioTransport ? transport.exitCode : null;
  return new Error(exitCode === null ? 'its connection was closed' : `it exited with code ${exitCode}`);
}
