import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startServer } from '../../scripts/reference.mjs';
import { ours } from './servers.mjs';

const ENVIRONMENT = 'bench';

/** Reading this file costs a Node program 50 ms at its start, which has nothing to do with the measurement. */
const BARE = { NODE_EXTRA_CA_CERTS: undefined };

/** How long an executor may take from its first line until it is connected to the relay. */
const ARRIVAL_MS = 10_000;

/**
 * A relay in its own process. Harnesses and tokens come from this checkout, whichever server is measured.
 * @param {import('../workloads/index.mjs').Context} context
 * @param {(relay: BenchRelay) => Promise<Record<string, number>>} measure
 */
export async function withRelay(context, measure) {
  const folder = mkdtempSync(join(context.work, 'relay-'));
  const secret = randomBytes(32).toString('hex');
  writeFileSync(join(folder, 'secret'), secret, { mode: 0o600 });
  const { command, args } = context.server;
  const relay = await startServer(command, [...args, 'relay', '--secret-file', join(folder, 'secret')], {
    env: BARE,
  });
  try {
    const { writeToken } = await ours('relay/service/access/access-tokens.js');
    const { Seal } = await ours('relay/service/access/sealed-text.js');
    const seal = new Seal(secret);
    const token = (role, environmentId = ENVIRONMENT) =>
      writeToken(seal, { id: randomUUID(), role, environmentId, expiresAt: null });
    return await measure({ url: relay.url, pid: relay.pid, token });
  } finally {
    await relay.stop();
    rmSync(folder, { recursive: true });
  }
}

/**
 * The same with one executor, which is also reachable directly.
 * @param {import('../workloads/index.mjs').Context} context
 * @param {(fixture: RelayedServer) => Promise<Record<string, number>>} measure
 */
export function withRelayedServer(context, measure) {
  return withRelay(context, async (relay) => {
    const { command, args } = context.server;
    const flags = ['--listen', 'ws://127.0.0.1:0', '--remote', relay.url, '--environment-id', ENVIRONMENT];
    const server = await startServer(command, [...args, ...flags], {
      env: { ...BARE, EXEC_SERVER_API_KEY: relay.token('executor') },
    });
    const { ExecServerClient } = await ours('client/index.js');
    const { connectRemote } = await ours('relay/index.js');
    const target = { registryUrl: relay.url, environmentId: ENVIRONMENT, auth: relay.token('harness') };
    const connect = () => connectRemote(target);
    try {
      const relayed = await whenThere(connect);
      const direct = await ExecServerClient.connect({ url: server.url });
      const result = await measure({ relay, server, direct, relayed, connect });
      await Promise.all([relayed.close(), direct.close()]);
      return result;
    } finally {
      await server.stop();
    }
  });
}

/**
 * @typedef {object} BenchRelay
 * @property {string} url
 * @property {number} pid
 * @property {(role: 'executor' | 'harness', environmentId?: string) => string} token
 *
 * @typedef {object} RelayedServer
 * @property {BenchRelay} relay
 * @property {{ pid: number }} server
 * @property {any} direct A client on the server's own websocket.
 * @property {any} relayed The same client, through the relay.
 * @property {() => Promise<any>} connect Opens another client through the relay, with its own key.
 */

async function whenThere(connect) {
  for (const deadline = Date.now() + ARRIVAL_MS; ; ) {
    try {
      return await connect();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
