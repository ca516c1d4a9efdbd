/**
 * How a client of the Model Context Protocol talks to its server. The members are those that the protocol's TypeScript SDK asks for,
 * so that its `Client` can be connected to one of these; nothing of the SDK is needed for it.
 */
export interface McpTransport {
  start(): Promise<void>;
  send(message: object): Promise<void>;
  /** Ends the server, or the session with it. */
  close(): Promise<void>;
  /** Called once, when nothing more can be sent or received. */
  onclose?: (() => void) | undefined;
  /** Called with what went wrong besides; it is not always the end. */
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: object) => void) | undefined;
  /** Only a web server has one. */
  sessionId?: string | undefined;
  setProtocolVersion?: ((version: string) => void) | undefined;
}

/** Reads a message, or tells why it is none. */
export function parseMessage(text: string): object | Error {
  try {
    const message: unknown = JSON.parse(text);
    if (typeof message === 'object' && message !== null) return message;
    return new Error('the MCP server sent JSON that is no message');
  } catch (cause) {
    return new Error('the MCP server sent what is not JSON', { cause });
  }
}
