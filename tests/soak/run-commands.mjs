// npm run soak:commands -- [--bytes N] [--files N] [--seconds N]
//
// Commands at full size on a real server: cp of a large file and of a large tree, each interrupted, continued, and cut off in between; and
// run with a job of minutes whose link is cut, restored, and then silent. Prints what it has seen, and fails at the first difference.
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  createReadStream,
  createWriteStream,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { TcpProxy } from '../../dist/testing/index.js';

const CLI = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const { values } = parseArgs({
  options: {
    bytes: { type: 'string', default: '1000000000' },
    files: { type: 'string', default: '20000' },
    seconds: { type: 'string', default: '120' },
  },
});
const [BYTES, FILES, SECONDS] = [values.bytes, values.files, values.seconds].map(Number);
const folder = mkdtempSync(join(tmpdir(), 'exec-server-commands-'));
const at = (name) => join(folder, name);
const startedAt = performance.now();
const report = (line) =>
  process.stdout.write(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(7)} s  ${line}\n`);

function start(...args) {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: { PATH: process.env.PATH, HOME: folder, XDG_RUNTIME_DIR: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const run = { child, stdout: '', stderr: '', ended: null };
  for (const name of ['stdout', 'stderr']) {
    child[name].setEncoding('utf8').on('data', (text) => {
      run[name] += text;
    });
  }
  run.ended = once(child, 'close').then(([code]) => code);
  return run;
}

async function until(what, probe, limitMs = 300_000) {
  const deadline = performance.now() + limitMs;
  while (!(await probe())) {
    if (performance.now() > deadline) throw new Error(`waited ${limitMs} ms for ${what}`);
    await delay(10);
  }
}

function expectEqual(what, actual, expected) {
  if (actual !== expected) throw new Error(`${what}: ${actual} instead of ${expected}`);
}

/** Cuts the link, and restores it after some seconds. */
async function cut(proxy, seconds) {
  proxy.interrupt();
  await delay(seconds * 1_000);
  proxy.restore();
}

async function sha256(path) {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest('hex');
}

async function copyLargeFile(proxy) {
  const out = createWriteStream(at('large'));
  for (let left = BYTES; left > 0; left -= 8_000_000) {
    if (!out.write(randomBytes(Math.min(left, 8_000_000)))) await once(out, 'drain');
  }
  await once(out.end(), 'close');
  mkdirSync(at('there'));
  const target = `${proxy.url}:${at('there/large')}`;
  /** What has arrived so far. */
  const arrived = () => {
    const [name] = readdirSync(at('there'));
    return name === undefined ? 0 : lstatSync(at(`there/${name}`)).size;
  };
  const first = start('cp', '--json', at('large'), target);
  await until('a third', () => arrived() > BYTES / 3);
  first.child.kill('SIGINT');
  expectEqual('the exit code of an interrupted cp', await first.ended, 130);
  report(`cp of ${BYTES} bytes: interrupted after ${arrived()} bytes`);
  const second = start('cp', '--json', at('large'), target);
  await until('two thirds', () => arrived() > (2 * BYTES) / 3);
  await cut(proxy, 3);
  expectEqual('the exit code of cp', await second.ended, 0);
  const { resumedBytes, verified, seconds } = JSON.parse(second.stdout);
  expectEqual('the SHA-256', await sha256(at('there/large')), await sha256(at('large')));
  expectEqual('what is left', readdirSync(at('there')).join(), 'large');
  report(
    `continued: link cut for 3 s, ${seconds} s, ${resumedBytes} bytes not sent again, ${verified} verified`,
  );
}

/** Files with several modes, links and odd names. */
function makeTree() {
  const names = ['plain', 'line\nbreak', `quotes'"`, '😀', '-rf', 'a:b', '%41', ' ', 'n'.repeat(200)];
  for (let index = 0; index < FILES; index++) {
    const directory = at(`tree/${index % 200}/${index % 7}`);
    mkdirSync(directory, { recursive: true });
    const path = join(directory, `${names[index % names.length]}${index}`);
    if (index % 10 === 0) symlinkSync(`../${index}`, path);
    else writeFileSync(path, String(index).repeat(index % 500), { mode: 0o400 + (index % 2) * 0o311 });
  }
}

/** Every entry of a tree with its type, mode and content. */
function treeOf(root) {
  if (!existsSync(root)) return [];
  return readdirSync(root, { recursive: true })
    .sort()
    .map((name) => {
      const path = join(root, name);
      const stats = lstatSync(path);
      const content = stats.isSymbolicLink()
        ? readlinkSync(path)
        : stats.isFile()
          ? readFileSync(path, 'latin1')
          : '';
      return `${name} ${stats.mode.toString(8)} ${content}`;
    });
}

const countOf = (root) => (existsSync(root) ? readdirSync(root, { recursive: true }).length : 0);

async function copyTree(proxy) {
  makeTree();
  const target = `${proxy.url}:${at('tree-there')}`;
  const first = start('cp', '-r', at('tree'), target);
  await until('a part of the tree', () => countOf(at('tree-there')) > FILES / 4);
  first.child.kill('SIGINT');
  expectEqual('the exit code of an interrupted cp', await first.ended, 130);
  report(`cp of ${FILES} files: interrupted after ${countOf(at('tree-there'))}`);
  const second = start('cp', '-r', '--json', `${at('tree')}/.`, target);
  await delay(1_000);
  await cut(proxy, 3);
  expectEqual('the exit code of cp', await second.ended, 0);
  const { files, links, seconds, failed } = JSON.parse(second.stdout);
  expectEqual('the failures', failed.length, 0);
  expectEqual('the tree', treeOf(at('tree-there')).join('\0') === treeOf(at('tree')).join('\0'), true);
  report(`continued: link cut for 3 s, ${seconds} s, ${files} files and ${links} links; the trees are equal`);
}

async function runLongJob(proxy) {
  const count = SECONDS * 10;
  const script = `i=0; while [ $i -lt ${count} ]; do i=$((i+1)); echo $i; sleep 0.1; done; exit 7`;
  const job = start('run', '-E', proxy.url, '--', 'sh', '-c', script);
  const isAt = (part) => () => job.stdout.includes(`\n${Math.floor(count * part)}\n`);
  await until('a tenth', isAt(0.1));
  await cut(proxy, 10);
  await until('its note', () => job.stderr.includes('reconnecting'));
  report('run: link cut for 10 s, and restored');
  await until('a quarter', isAt(0.25));
  const silentSince = performance.now();
  const shown = job.stdout.length;
  proxy.setStalled(true);
  await until('output after the silence', () => job.stdout.length > shown);
  report(`run: a silent link was replaced after ${((performance.now() - silentSince) / 1000).toFixed(0)} s`);
  expectEqual('the exit code of run', await job.ended, 7);
  const numbers = Array.from({ length: count }, (_, index) => `${index + 1}\n`).join('');
  expectEqual('the output', job.stdout === numbers, true);
  report(`run: ${count} lines in ${SECONDS} s, nothing lost, nothing twice`);
}

const server = start('serve');
try {
  await until('the server', () => server.stdout.includes('\n'));
  const proxy = await TcpProxy.open(server.stdout.trim());
  await copyLargeFile(proxy);
  await copyTree(proxy);
  await runLongJob(proxy);
  await proxy.close();
} catch (error) {
  process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
} finally {
  server.child.kill('SIGTERM');
  await server.ended;
  rmSync(folder, { recursive: true, force: true });
}
