/**
 * A transport between a client of the Model Context Protocol and its server. It has the members that the `Client` of the protocol's
 * TypeScript SDK requires, without a dependency on the SDK.
 */
export interface McpTransport {
  start(): Promise<void>;
  send(message: object): Promise<void>;
  /** Ends the server, or the session at it. */
  close(): Promise<void>;
  /** Called once, when the transport is closed. */
  onclose?: (() => void) | undefined;
  /** Called with other errors, which need not close the transport. */
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: object) => void) | undefined;
  /** Only a server over HTTP has one. */
  sessionId?: string | undefined;
  setProtocolVersion?: ((version: string) => void) | undefined;
}

/** Parses a message. Returns an error when the text is not a message. */
export function parseMessage(text: string): object | Error {
  try {
    const message: unknown = JSON.parse(text);
    if (typeof message === 'object' && message !== null) return message;
    return new Error('invalid message from the MCP server: not a JSON object');
  } catch (cause) {
    return new Error('invalid message from the MCP server: not JSON', { cause });
  }
}
