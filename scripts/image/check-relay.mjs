// A relay and an executor, each in a container, and a client on the machine. The relay keeps its registrations in memory, or in a Redis of the machine.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { createClient } from '@redis/client';
import { isHealthy, secretFile } from './check-server.mjs';
import { freePort, untilReady } from './commands.mjs';

const SECRET = 'a secret of at least thirty-two bytes';
const HARDENED = ['--read-only', '--cap-drop=all', '--security-opt', 'no-new-privileges'];

export async function checkRelay(podman, image, report) {
  const secret = ['--volume', `${secretFile(podman, 'relay-secret', SECRET)}:/run/secrets/relay:ro`];
  await useRelay('relay', 'memory');
  await withRedis(async (store) => {
    await useRelay('relay-redis', store);
    await report('relay-redis: Redis has the registration', async () => {
      const keys = await keysOf(store);
      assert(
        keys.some((key) => key.includes('box')),
        `Redis has ${keys}`,
      );
    });
  });

  async function useRelay(name, store) {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const token = (role) =>
      podman.do(
        ...['exec', name, 'exec-server', 'relay', 'token', '--secret-file', '/run/secrets/relay'],
        ...['--role', role, '--environment', 'box'],
      );

    await report(`${name}: starts`, async () => {
      const flags = [...HARDENED, ...secret, '--env', `HEALTH_URL=${url}/readyz`];
      const where = ['--listen', url, '--store', store, '--node-url', url];
      await podman.start(name, flags, image, ['relay', '--secret-file', '/run/secrets/relay', ...where]);
      await untilReady(`${url}/readyz`, podman, name);
    });
    await report(`${name}: health check`, () => isHealthy(podman, name));
    const metrics = `127.0.0.1:${await freePort()}`;
    await report(`${name}: a client runs a program in an executor container`, async () => {
      const key = ['--env', `EXEC_SERVER_API_KEY=${await token('executor')}`];
      // The containers of this test share the ports of the machine.
      const flags = [...HARDENED, ...key, '--env', `HEALTH_URL=http://${metrics}/readyz`];
      const command = ['serve', '--remote', url, '--environment-id', 'box', '--metrics-listen', metrics];
      await podman.start(`${name}-executor`, flags, image, command);
      const { connectRemote } = await import('../../dist/relay/index.js');
      const { run } = await import('../../dist/client/index.js');
      const options = { registryUrl: url, environmentId: 'box', auth: await token('harness') };
      const client = await whenRegistered(() => connectRemote(options));
      const { text } = await run(client.backend, ['id', '-u']);
      await client.close();
      assert.equal(text.stdout, '10001\n');
    });
    await report(`${name}: health check of the executor`, () => isHealthy(podman, `${name}-executor`));
    await report(`${name}: stops with exit code 0`, async () => {
      await podman.do('stop', '--time', '20', name);
      assert.equal(await podman.do('inspect', name, '--format', '{{.State.ExitCode}}'), '0');
    });
  }
}

/** Calls `use` with the URL of a new Redis, which keeps nothing. */
async function withRedis(use) {
  const port = await freePort();
  const flags = ['--bind', '127.0.0.1', '--port', String(port), '--save', '', '--appendonly', 'no'];
  const redis = spawn('redis-server', flags, { stdio: ['ignore', 'pipe', 2] });
  const exited = once(redis, 'exit');
  try {
    await untilListening(redis);
    await use(`redis://127.0.0.1:${port}`);
  } finally {
    redis.kill();
    await exited;
  }
}

async function untilListening(redis) {
  for await (const line of createInterface(redis.stdout)) {
    if (line.includes('Ready to accept connections')) return;
  }
  throw new Error('redis-server ended before it accepted connections');
}

async function keysOf(url) {
  const redis = await createClient({ url }).connect();
  try {
    return await redis.keys('*');
  } finally {
    redis.destroy();
  }
}

/** Repeats a connect until the executor has registered. */
async function whenRegistered(connect) {
  for (const deadline = Date.now() + 60_000; ; ) {
    try {
      return await connect();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
