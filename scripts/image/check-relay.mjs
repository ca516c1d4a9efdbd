// A relay and an executor, each in a container, and a client on the machine.
import assert from 'node:assert/strict';
import { secretFile } from './check-server.mjs';
import { freePort, untilReady } from './commands.mjs';

const SECRET = 'a secret of at least thirty-two bytes';
const HARDENED = ['--read-only', '--cap-drop=all', '--security-opt', 'no-new-privileges'];

export async function checkRelay(podman, image, report) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const secret = ['--volume', `${secretFile(podman, 'relay-secret', SECRET)}:/run/secrets/relay:ro`];
  const token = (role) =>
    podman.do(
      ...['exec', 'relay', 'exec-server', 'relay', 'token', '--secret-file', '/run/secrets/relay'],
      ...['--role', role, '--environment', 'box'],
    );

  await report('relay: starts', async () => {
    const flags = [...HARDENED, ...secret, '--env', `HEALTH_URL=${url}/readyz`];
    const command = ['relay', '--secret-file', '/run/secrets/relay', '--listen', url];
    await podman.start('relay', flags, image, command);
    await untilReady(`${url}/readyz`, podman, 'relay');
  });
  await report('relay: health check', () => podman.do('healthcheck', 'run', 'relay'));
  await report('relay: a client runs a program in an executor container', async () => {
    const flags = [...HARDENED, '--env', `EXEC_SERVER_API_KEY=${await token('executor')}`];
    const command = ['serve', '--remote', url, '--environment-id', 'box', '--log-level', 'info'];
    await podman.start('executor', flags, image, command);
    const { connectRemote } = await import('../../dist/relay/index.js');
    const { run } = await import('../../dist/client/index.js');
    const options = { registryUrl: url, environmentId: 'box', auth: await token('harness') };
    const client = await whenRegistered(() => connectRemote(options));
    const { text } = await run(client.backend, ['id', '-u']);
    await client.close();
    assert.equal(text.stdout, '10001\n');
  });
  await report('relay: stops with exit code 0', async () => {
    await podman.do('stop', '--time', '20', 'relay');
    assert.equal(await podman.do('inspect', 'relay', '--format', '{{.State.ExitCode}}'), '0');
  });
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
