import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../server/config/config.ts';
import { ExecServer } from '../server/exec-server.ts';
import { createMemoryPair, type MemoryTransport } from '../transport/memory.ts';
import { TestClient } from './test-client.ts';

/** A server for one test. */
export interface TestServer {
  readonly url: string;
  /** Opens a new connection. Performs the handshake unless `handshake` is false. */
  connect(options?: { handshake?: boolean }): Promise<TestClient>;
  close(): Promise<void>;
}

/** Starts a server in this process on a free port of the loopback interface. */
export async function startServer(config: Partial<ExecServerConfig> = {}): Promise<TestServer> {
  const server = new ExecServer(testConfig(config));
  const url = await server.listen({ kind: 'websocket', secure: false, host: '127.0.0.1', port: 0 });
  return { url, connect: (options) => connectTo(url, options), close: () => server.close() };
}

/** A client and its server, connected without a socket. */
export interface MemoryConnection {
  readonly client: TestClient;
  /** The server's end. A test can congest or break it. */
  readonly serverEnd: MemoryTransport;
  close(): Promise<void>;
}

/** Serves one client in memory. */
export function connectInMemory(config: Partial<ExecServerConfig> = {}): MemoryConnection {
  const server = new ExecServer(testConfig(config));
  const [left, right] = createMemoryPair();
  void server.accept(right);
  return { client: new TestClient(left), serverEnd: right, close: () => server.close() };
}

/** A server that runs as its own process, as users run it. */
export interface ServerProcess extends TestServer {
  readonly process: ChildProcess;
  /** What the server has written to stderr so far. */
  readonly stderr: () => string;
}

/** Starts a bin, by default the built one, with the given flags and waits for its URL. */
export async function startServerProcess(
  flags: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  bin = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url)),
): Promise<ServerProcess> {
  const child = spawn(process.execPath, [bin, ...flags], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk;
  });
  const url = await firstLine(child, () => stderr);
  return {
    url,
    process: child,
    stderr: () => stderr,
    connect: (options) => connectTo(url, options),
    close: () => stopProcess(child),
  };
}

function testConfig(config: Partial<ExecServerConfig>): ExecServerConfig {
  return { ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0, ...config };
}

async function connectTo(url: string, options: { handshake?: boolean } = {}): Promise<TestClient> {
  const client = await TestClient.connect(url);
  if (options.handshake !== false) await client.handshake();
  return client;
}

async function firstLine(child: ChildProcess, stderr: () => string): Promise<string> {
  const lines = createInterface({ input: child.stdout! });
  const line = once(lines, 'line') as Promise<[string]>;
  const exit = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`the server ended before it printed its URL (${code ?? signal}):\n${stderr()}`);
  });
  const [url] = await Promise.race([line, exit]);
  return url;
}

async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}
