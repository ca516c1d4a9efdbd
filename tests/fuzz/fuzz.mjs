// Attacks a server process with invalid input. Checks that it keeps serving well-behaved clients and frees everything afterwards.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startServer } from '../../scripts/reference.mjs';
import { stateOf, waitUntilIdle } from '../support/server-state.mjs';
import { ATTACKS } from './attacks.mjs';
import { checkService } from './check-service.mjs';
import { within } from './peer.mjs';
import { Random } from './random.mjs';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const MAX_MESSAGE_BYTES = 1024 * 1024;
/** Small values, so that timeouts pass quickly and limits are reached. */
const FLAGS = [
  ...[
    '--max-message-bytes',
    String(MAX_MESSAGE_BYTES),
    '--max-processes',
    '64',
    '--max-processes-per-connection',
    '16',
  ],
  ...[
    '--detached-session-ttl',
    '300ms',
    '--closed-process-retention',
    '200ms',
    '--shutdown-grace-period',
    '0',
  ],
  ...['--handshake-timeout', '500ms', '--initialize-timeout', '1s', '--log-level', 'error'],
];
/** Concurrent attacks. */
const CONCURRENCY = 12;
/** Attacks between two checks with a well-behaved client. */
export const ROUND = 60;
/**
 * How much the server may grow: it keeps descriptors of threads and watches once it needs them, and its heap grows to its working
 * size. The timeout covers sandboxed file helpers, which exit after an idle time.
 */
const ALLOWANCE = { descriptors: 8, memory: 160 * 1024 * 1024, timeoutMs: 40_000 };

/**
 * @param {object} options
 * @param {number} options.seed
 * @param {number} options.attacks
 * @param {(done: number) => boolean} [options.goOn] Called after each round.
 * @returns {Promise<{ attacks: number, kinds: Record<string, number> }>} Rejects with the first failure.
 */
export async function runFuzz({ seed, attacks, goOn = () => true }) {
  const scratch = mkdtempSync(join(tmpdir(), 'fuzz-'));
  const server = await startServer(process.execPath, [BIN, ...FLAGS], {});
  let stderr = '';
  server.child.stderr.on('data', (text) => {
    stderr += text;
  });
  const died = server.exited.then(({ code, signal }) => {
    throw new Error(`the server ended (${code ?? signal}):\n${stderr.slice(-4000)}`);
  });
  died.catch(() => {});
  try {
    await Promise.race([died, attackAll({ server, seed, attacks, goOn, scratch })]);
    if (stderr.includes('"level":"error"'))
      throw new Error(`the server logged an error:\n${stderr.slice(0, 4000)}`);
    return { attacks, kinds: countKinds(seed, attacks) };
  } finally {
    died.catch(() => {});
    await server.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}

async function attackAll({ server, seed, attacks, goOn, scratch }) {
  const { url, pid } = server;
  await checkService(url, join(scratch, 'before'));
  const before = stateOf(pid);
  const sessions = [];
  for (let first = 0; first < attacks; first += ROUND) {
    const round = Array.from({ length: Math.min(ROUND, attacks - first) }, (_, index) => first + index);
    const workers = Array.from({ length: CONCURRENCY }, async () => {
      for (let index = round.shift(); index !== undefined; index = round.shift()) {
        await attack({ index, seed, url, scratch, sessions });
      }
    });
    await Promise.all(workers);
    await checkService(url, join(scratch, `visit-${first}`));
    if (!goOn(first + ROUND)) break;
  }
  await waitUntilIdle(pid, before, ALLOWANCE);
}

async function attack({ index, seed, url, scratch, sessions }) {
  const random = new Random(seed, index);
  const kind = kindOf(random);
  const folder = join(scratch, `attack-${index}`);
  createFiles(folder);
  try {
    const context = { url, random, folder, sessions, maxMessageBytes: MAX_MESSAGE_BYTES };
    await within(30_000, 'the end of the attack', ATTACKS[kind](context));
  } catch (error) {
    throw new Error(`attack ${index} (${kind}) of seed ${seed}: ${error.message}`, { cause: error });
  }
}

function kindOf(random) {
  return random.pick(['http', 'frames', 'sizes', 'texts', 'texts', 'methods', 'methods', 'methods']);
}

function countKinds(seed, attacks) {
  const kinds = {};
  for (let index = 0; index < attacks; index++) {
    const kind = kindOf(new Random(seed, index));
    kinds[kind] = (kinds[kind] ?? 0) + 1;
  }
  return kinds;
}

/** Creates files, folders and links for the attack to work on. */
function createFiles(folder) {
  mkdirSync(join(folder, 'folder/deep/er'), { recursive: true });
  writeFileSync(join(folder, 'file'), 'content\n'.repeat(100));
  writeFileSync(join(folder, 'folder/inner'), 'X');
  symlinkSync('folder', join(folder, 'link'));
  symlinkSync('loop', join(folder, 'loop'));
}
