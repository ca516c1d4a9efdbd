import { constants } from 'node:buffer';
import { createLogger } from '../observability/log.ts';
import { logStream } from '../observability/log-stream.ts';
import type { LazySpawner } from '../process/spawn/lazy-spawner.ts';
import { createMemoryPair } from '../transport/memory.ts';
import type { Transport } from '../transport/transport.ts';
import { DEFAULT_CONFIG, type ExecServerConfig, type ServerSettings } from './config/config.ts';
import { ExecServer } from './exec-server.ts';

/** A server without a listener, authentication or an audit log. Its client runs in the same process. */
export interface InMemoryServer {
  /** Whether programs can run on a terminal; when not, why. */
  readonly pty: LazySpawner['pty'];
  /** Opens a connection and returns the client's end of it. */
  connect(): Transport;
  /** Kills every process. The client stays connected and receives the last events. Nothing can be started afterwards. */
  endSessions(): Promise<void>;
  /** Ends the sessions, closes the connections and cleans up. */
  close(): Promise<void>;
}

/** Opens no file and starts no process before the first connection. `settings` override {@link IN_MEMORY_CONFIG}. */
export function createInMemoryServer(settings: ServerSettings = {}): InMemoryServer {
  // Failures of requests are returned to the client; the log has the details of defects only.
  const log = createLogger('error', logStream(process.stderr));
  const server = new ExecServer(settings, { log, inProcess: true, defaults: IN_MEMORY_CONFIG });
  return {
    get pty() {
      return server.pty;
    },
    connect() {
      const [client, transport] = createMemoryPair({ carriesBytes: true });
      void server.accept(transport);
      return client;
    },
    endSessions: () => server.endSessions(),
    close: () => server.close(),
  };
}

/** The defaults of a server, except for what protects it from the network and from clients that it does not trust. */
const IN_MEMORY_CONFIG: ExecServerConfig = Object.freeze({
  ...DEFAULT_CONFIG,
  listen: 'off',
  maxConnections: 1,
  initializeTimeoutMs: 0,
  shutdownGracePeriodMs: 0,
  // It would keep debuggers from attaching to the program that this server is a part of.
  protectMemory: false,
  // Node's longest string bounds what the client can send.
  maxMessageBytes: constants.MAX_STRING_LENGTH,
  maxRequestBytesInFlight: 2 * constants.MAX_STRING_LENGTH,
  // Only the system limits how many files the program may open, and the memory what it may ask for at a time.
  maxFileHandles: Number.MAX_SAFE_INTEGER,
  maxHttpBodyBytes: 8 * DEFAULT_CONFIG.maxHttpBodyBytes,
});
