// The reference server: codex 0.166.0, fetched on demand and never a dependency of the package.
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder, ensurePackage } from './package-cache.mjs';

export const REFERENCE_VERSION = '0.166.0';

const START_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 5_000;

/** Servers that must not outlive this process, each with its clean-up. */
const alive = new Map();
process.once('exit', () => {
  for (const [child, onExit] of alive) {
    child.kill('SIGKILL');
    onExit();
  }
});

/** Path of the native reference binary. Installs it into the cache folder if it is not found. */
export async function ensureReference() {
  const given = process.env.EXEC_SERVER_REFERENCE;
  if (given) {
    const binary = findBinary(given);
    if (!binary) throw new Error(`EXEC_SERVER_REFERENCE: no codex binary in ${given}`);
    return verified(binary);
  }
  const binary = await ensurePackage('@openai/codex', REFERENCE_VERSION, findBinary).catch(({ message }) => {
    throw new Error(`${message}; install it by hand and set EXEC_SERVER_REFERENCE`);
  });
  return verified(binary);
}

/**
 * Starts the reference on a free port with an empty home folder. `args` replaces the listen arguments, `env` is merged into the
 * environment of this process, and `files` (name to content) are written into the home folder.
 */
export async function startReference({ concurrentRequests, args, env, files } = {}) {
  const binary = await ensureReference();
  const home = createHome(files);
  const serverArgs = ['exec-server', ...(args ?? ['--listen', 'ws://127.0.0.1:0'])];
  if (concurrentRequests) serverArgs.push('--concurrent-requests', String(concurrentRequests));
  return startAtHome(binary, serverArgs, { env, home });
}

/** Creates a home folder. It is not below /tmp, because the reference warns about such a home. */
export function createHome(files = {}) {
  mkdirSync(cacheFolder(), { recursive: true });
  const home = mkdtempSync(join(cacheFolder(), 'home-'));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(home, name)), { recursive: true });
    writeFileSync(join(home, name), content);
  }
  return home;
}

/** Starts a server that owns `home`, which is removed when the server stops. */
export async function startAtHome(command, args, { env, home }) {
  const removeHome = () => rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  try {
    const server = await startServer(command, args, {
      env: { ...env, HOME: home, CODEX_HOME: undefined },
      onExit: removeHome,
    });
    return Object.assign(server, { home });
  } catch (error) {
    removeHome();
    throw error;
  }
}

/**
 * Starts any server program. With a websocket listener its first stdout line is the url. A stdio server has no url; use `child`.
 * `stop` resolves when the process has exited. The server is also killed when this process exits.
 */
export async function startServer(command, args, { env = {}, onExit = () => {} } = {}) {
  const stdio = args.some((arg) => arg === 'stdio' || arg === 'stdio://');
  const child = spawn(command, args, {
    env: withoutUndefined({ ...process.env, ...env }),
    stdio: [stdio ? 'pipe' : 'ignore', 'pipe', 'pipe'],
  });
  const stderr = tail(child.stderr);
  alive.set(child, onExit);
  const exited = new Promise((resolve) => {
    child.once('close', (code, signal) => {
      alive.delete(child);
      onExit();
      resolve({ code, signal });
    });
  });
  await new Promise((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  };
  const server = { url: null, pid: child.pid, child, exited, stop };
  if (stdio) return server;
  try {
    server.url = await firstLine(child, stderr);
    return server;
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Finds the binary in a folder with installed packages, or at the path itself. */
function findBinary(place) {
  if (!existsSync(place)) return undefined;
  if (statSync(place).isFile()) return place;
  const platformPackage = `@openai/codex-${process.platform}-${process.arch}`;
  for (const parent of ['node_modules', 'node_modules/@openai/codex/node_modules']) {
    const vendor = join(place, parent, platformPackage, 'vendor');
    const target = existsSync(vendor) ? readdirSync(vendor)[0] : undefined;
    const binary = target && join(vendor, target, 'bin', 'codex');
    if (binary && existsSync(binary)) return binary;
  }
  return undefined;
}

async function verified(binary) {
  const { stdout } = await promisify(execFile)(binary, ['--version']);
  if (stdout.trim() !== `codex-cli ${REFERENCE_VERSION}`) {
    throw new Error(`${binary} is ${stdout.trim()}, expected codex-cli ${REFERENCE_VERSION}`);
  }
  return binary;
}

function firstLine(child, stderr) {
  return new Promise((resolve, reject) => {
    let text = '';
    const fail = (why) => reject(new Error(`the server ${why}: ${stderr() || 'no output'}`));
    const timer = setTimeout(() => fail('printed no url before the timeout'), START_TIMEOUT_MS);
    child.once('close', (code) => fail(`ended with code ${code}`));
    child.stdout.setEncoding('utf8').on('data', (part) => {
      text += part;
      const end = text.indexOf('\n');
      if (end < 0) return;
      clearTimeout(timer);
      resolve(text.slice(0, end).trim());
    });
  });
}

function tail(stream) {
  let text = '';
  stream.setEncoding('utf8').on('data', (part) => {
    text = (text + part).slice(-4096);
  });
  return () => text.trim();
}

function withoutUndefined(record) {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}
