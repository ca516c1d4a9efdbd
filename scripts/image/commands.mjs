// The command line of this checkout, as a user of the containers has it on the machine.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const START_DEADLINE_MS = 60_000;

/** Calls `use` with a function that runs `exec-server ARGS` in an empty home. */
export async function withCommandLine(environment, use) {
  const home = mkdtempSync(join(tmpdir(), 'exec-server-home-'));
  const env = { PATH: process.env.PATH, HOME: home, ...environment };
  try {
    return await use(
      (...args) =>
        new Promise((resolve) => {
          execFile(process.execPath, [PROGRAM, ...args], { env }, (error, stdout, stderr) =>
            resolve({ code: error === null ? 0 : error.code, stdout, stderr }),
          );
        }),
    );
  } finally {
    rmSync(home, { recursive: true });
  }
}

/** A port of this machine that no program uses. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Waits until a container answers 200 at this URL. */
export async function untilReady(url, podman, container) {
  for (const deadline = Date.now() + START_DEADLINE_MS; Date.now() < deadline; await delay(50)) {
    const { ok } = await fetch(url).catch(() => ({ ok: false }));
    if (ok) return;
  }
  const { stdout, stderr } = await podman.try('logs', container);
  throw new Error(`${container} is not ready after ${START_DEADLINE_MS / 1000} s: ${stdout}${stderr}`);
}
