import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ExecServerClient } from '../../src/client/client.ts';
import { stdioCommand } from '../../src/client/stdio.ts';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { ExecServer } from '../../src/server/exec-server.ts';
import { startServerProcess, TcpProxy } from '../../src/testing/index.ts';
import { createMemoryPair } from '../../src/transport/memory.ts';

/** A client and its own server. */
export interface ConnectedClient {
  readonly client: ExecServerClient;
  close(): Promise<void>;
}

/** A server in its own process, started with the flags and reached by URL. */
export async function overWebSocket(flags: readonly string[] = []): Promise<ConnectedClient> {
  const server = await startServerProcess(flags);
  try {
    const client = await ExecServerClient.connect({ url: server.url });
    return { client, close: () => client.close().finally(() => server.close()) };
  } catch (error) {
    await server.close();
    throw error;
  }
}

/** Like {@link overWebSocket}, with a proxy that the test can cut. */
export async function overProxy(): Promise<ConnectedClient & { readonly proxy: TcpProxy }> {
  const server = await startServerProcess();
  const proxy = await TcpProxy.open(server.url);
  const end = () => proxy.close().finally(() => server.close());
  try {
    const client = await ExecServerClient.connect({ url: proxy.url });
    return { client, proxy, close: () => client.close().finally(end) };
  } catch (error) {
    await end();
    throw error;
  }
}

/** A server in this process that listens on a unix socket. */
export async function overUnixSocket(): Promise<ConnectedClient> {
  const folder = mkdtempSync(join(tmpdir(), 'unix-socket-'));
  const server = new ExecServer({ ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0 });
  const end = () => server.close().finally(() => rmSync(folder, { recursive: true, force: true }));
  try {
    const url = await server.listen({ kind: 'unix', path: join(folder, 'socket') });
    const client = await ExecServerClient.connect({ url });
    return { client, close: () => client.close().finally(end) };
  } catch (error) {
    await end();
    throw error;
  }
}

/** A server that the client starts as a program. */
export async function overStdio(): Promise<ConnectedClient> {
  const args = [
    fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url)),
    '--listen',
    'stdio',
  ];
  const client = await ExecServerClient.connect(stdioCommand({ program: process.execPath, args }));
  return { client, close: () => client.close() };
}

/** A server in this process. */
export async function inMemory(): Promise<ConnectedClient> {
  const server = new ExecServer({ ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0 });
  const open = async () => {
    const [ours, theirs] = createMemoryPair();
    void server.accept(theirs);
    return ours;
  };
  const client = await ExecServerClient.connect({ open, resumable: true });
  return { client, close: () => client.close().finally(() => server.close()) };
}
