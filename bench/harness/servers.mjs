import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureReference, REFERENCE_VERSION, startServer } from '../../scripts/reference.mjs';
import { childrenOf } from '../wire/proc.mjs';

/**
 * @typedef {object} ServerSpec A server that can be started repeatedly.
 * @property {string} label
 * @property {string} command
 * @property {string[]} args
 * @property {boolean} [ownHome] Whether every start gets an empty home folder.
 * @property {boolean} [launcher] Whether the command starts the server as a child process.
 */

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** A built module of this checkout. @param {string} path Below `dist`. */
export function ours(path) {
  return import(join(ROOT, 'dist', path));
}

/** Starts a server that has exited when `stop` resolves or this process ends. @param {ServerSpec} spec */
export async function startSpec(spec) {
  const server = await startAtHome(spec);
  return spec.launcher ? withChildren(server) : server;
}

/** @param {ServerSpec} spec */
async function startAtHome({ command, args, ownHome }) {
  // Reading this file costs a Node program 50 ms at its start, which has nothing to do with either server.
  const env = { NODE_EXTRA_CA_CERTS: undefined };
  if (!ownHome) return startServer(command, args, { env });
  const home = createHome();
  const onExit = () => rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  try {
    return await startServer(command, args, {
      env: { ...env, HOME: home, CODEX_HOME: undefined },
      onExit,
    });
  } catch (error) {
    onExit();
    throw error;
  }
}

/**
 * A launcher that is stopped before it forwards signals leaves the server running, with the pipe whose end `stop` waits for. So the
 * server is stopped first.
 */
function withChildren(server) {
  const children = childrenOf(server.pid);
  const end = (signal) => {
    for (const pid of children) endProcess(pid, signal);
  };
  const endAtExit = () => end('SIGKILL');
  process.once('exit', endAtExit);
  const stop = async () => {
    end('SIGTERM');
    await server.stop();
    process.off('exit', endAtExit);
  };
  return { ...server, stop };
}

function endProcess(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch {
    // It has already exited.
  }
}

/** The reference: its native binary. @returns {Promise<ServerSpec>} */
export async function referenceSpec() {
  const command = await ensureReference();
  return { label: `codex ${REFERENCE_VERSION}`, command, args: LISTEN_REFERENCE, ownHome: true };
}

/**
 * The reference as npm installs it, if its launcher is in a folder above the native binary; null otherwise.
 * @param {ServerSpec} native
 * @returns {ServerSpec | null}
 */
export function launcherSpec(native) {
  for (let folder = dirname(native.command); folder !== dirname(folder); folder = dirname(folder)) {
    const command = join(folder, 'node_modules', '.bin', 'codex');
    if (existsSync(command)) {
      return { ...native, label: `${native.label} (npm)`, command, launcher: true };
    }
  }
  return null;
}

/** This checkout as it would be installed: what `bin` names. @returns {ServerSpec} */
export function ownSpec() {
  const { bin, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const script = join(ROOT, typeof bin === 'string' ? bin : Object.values(bin)[0]);
  if (!existsSync(script)) throw new Error(`${script} does not exist; build first: node scripts/prepare.mjs`);
  return { label: `ours ${version}`, command: process.execPath, args: [script] };
}

/** Any command whose first line on stdout is the url. Words may be quoted. @param {string} text @returns {ServerSpec} */
export function commandSpec(text) {
  const words = [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((word) => word[1] ?? word[2] ?? word[3]);
  if (words.length === 0) throw new Error('an empty command cannot be started');
  return { label: text, command: words[0], args: words.slice(1) };
}

/** A server that sends pre-built frames. It measures the highest rate of the client. */
export function replaySpec(chunkBytes) {
  const script = join(ROOT, 'bench', 'replay-server.mjs');
  return { label: 'replay', command: process.execPath, args: [script, String(chunkBytes)] };
}

const LISTEN_REFERENCE = ['exec-server', '--listen', 'ws://127.0.0.1:0'];

/** Outside /tmp, where the reference warns about it. */
function createHome() {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'exec-server');
  mkdirSync(cache, { recursive: true });
  return mkdtempSync(join(cache, 'home-'));
}
