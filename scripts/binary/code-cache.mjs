// Records V8 code caches for the single executable: compiling is a third of the start time. A cache is only valid for the Node that wrote it, so
// the executable writes it itself, with qemu for another architecture.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { WebSocket } from 'ws';

/** Appended to scripts/binary/main.cjs. */
const RECORDER = `
process.once('SIGPWR', () => process.exit(0));
process.once('exit', () => writeFileSync(process.env.CODE_CACHE_FILE, script.createCachedData()));
`;

const SERVE = ['--listen', 'ws://127.0.0.1:0'];

/** How long a start may take under qemu. */
const TIMEOUT_MS = 120_000;

/**
 * The command that runs a program of this architecture, null if there is none. The libraries come from the Debian packages
 * libstdc++6-arm64-cross and libc6-arm64-cross.
 */
export function emulatorFor(arch) {
  if (arch === process.arch) return [];
  const libraries = '/usr/aarch64-linux-gnu';
  const emulator = ['/usr/bin/qemu-aarch64-static', '/usr/bin/qemu-aarch64'].find(existsSync);
  const isUsable =
    arch === 'arm64' && emulator !== undefined && existsSync(join(libraries, 'lib/libstdc++.so.6'));
  return isUsable ? [emulator, '-L', libraries] : null;
}

/** The caches by the names of their files in the executable. `build` writes an executable with this code added and returns its path. */
export async function recordCodeCaches(arch, build) {
  const emulator = emulatorFor(arch);
  if (emulator === null) {
    process.stderr.write(
      `build-binary: no emulator for ${arch}: the executable has no code cache and starts more slowly\n`,
    );
    return new Map();
  }
  const command = [...emulator, await build(RECORDER)];
  return new Map([
    ['bin/main.js.cache', await record(command, SERVE, useServer)],
    ['bin/client.js.cache', await recordClient(command)],
    ['bin/mcp.js.cache', await record(command, ['mcp'], useMcpServer)],
  ]);
}

/** The code of a command that runs a program of a server. */
async function recordClient(command) {
  let cache;
  await record(command, SERVE, async ({ stdout }) => {
    const [url] = await once(createInterface(stdout), 'line');
    cache = await record(command, ['run', '-E', url, '-n', '--', 'true'], async (child) => {
      const [code] = await once(child, 'exit');
      if (code !== 0) throw new Error(`run: exit code ${code}`);
    });
  });
  return cache;
}

/** Starts the executable, and returns the cache that it writes when `use` has ended. */
async function record([program, ...first], args, use) {
  const folder = mkdtempSync(join(tmpdir(), 'code-cache-'));
  const file = join(folder, 'cache');
  const env = { PATH: process.env.PATH, HOME: folder, CODE_CACHE_FILE: file };
  const child = spawn(program, [...first, ...args], { env, stdio: ['pipe', 'pipe', 'ignore'] });
  const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS);
  try {
    const exited = once(child, 'exit');
    await Promise.race([
      use(child),
      exited.then(([code]) => code === 0 || Promise.reject(new Error(`${args[0]}: the program ended`))),
    ]);
    child.kill('SIGPWR');
    await exited;
    return readFileSync(file);
  } finally {
    clearTimeout(timer);
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Connects and gets the answer to the first request. */
async function useServer({ stdout }) {
  const [url] = await once(createInterface(stdout), 'line');
  const socket = new WebSocket(url);
  await once(socket, 'open');
  socket.send('{"id":1,"method":"initialize","params":{"clientName":"build"}}');
  await once(socket, 'message');
  socket.terminate();
}

/** Gets the list of tools. */
async function useMcpServer({ stdin, stdout }) {
  const lines = createInterface(stdout)[Symbol.asyncIterator]();
  const send = (message) => stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const clientInfo = { name: 'build', version: '1' };
  send({
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
  });
  await lines.next();
  send({ method: 'notifications/initialized' });
  send({ id: 2, method: 'tools/list' });
  await lines.next();
}
