// Measures the walks of ARCHITECTURE.md: runs each of them against the build and compares the files whose functions ran with the files that
// the page lists. Prints the differences; exits 1 if there are any. Needs `npm run build`, bwrap and Linux. Not part of `npm run check`,
// because a file may run or not depending on caches and timing.
//
//   node scripts/trace-walks.mjs [--all]     --all prints every file with the functions that ran
import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = new URL('../', import.meta.url);
const DIST = new URL('dist/', ROOT).href;
const library = (name) => import(new URL(`${name}/index.js`, DIST).href);

if (process.send === undefined) await measure();
else await drive(process.argv[2]);

async function measure() {
  const profiler = new Session();
  profiler.connect();
  await profiler.post('Profiler.enable');
  await profiler.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  const recorder = {
    begin: () => take(profiler),
    end: async (title) => compare(title, await take(profiler)),
  };
  await serverWalks(recorder);
  await relayWalk(recorder);
  await recoveryWalk(recorder);
  process.exit();
}

/** The files whose functions ran since the last call, with these functions. */
async function take(profiler) {
  const { result } = await profiler.post('Profiler.takePreciseCoverage');
  const files = new Map();
  for (const { url, functions } of result) {
    if (!url.startsWith(DIST) || url.startsWith(`${DIST}testing/`)) continue;
    const ran = functions.filter(({ functionName, ranges }) => functionName !== '' && ranges[0].count > 0);
    const file = `src/${url.slice(DIST.length).replace(/\.js$/, '.ts')}`;
    if (ran.length > 0)
      files.set(
        file,
        ran.map(({ functionName }) => functionName),
      );
  }
  return files;
}

function compare(title, files) {
  const listed = listedFiles(title);
  const missing = [...files.keys()].filter((file) => !listed.has(file));
  const extra = [...listed].filter((file) => !files.has(file) && !runsInHelper(file));
  process.stdout.write(`${title}: ${files.size} files ran, ${listed.size} are listed\n`);
  for (const file of missing.sort()) process.stdout.write(`  not listed: ${file}\n`);
  for (const file of extra) process.stdout.write(`  did not run: ${file}\n`);
  if (missing.length + extra.length > 0) process.exitCode = 1;
  if (!process.argv.includes('--all')) return;
  for (const [file, functions] of [...files].sort())
    process.stdout.write(`    ${file}: ${functions.join(' ')}\n`);
}

/** Files of the helper process in the sandbox, which is not measured. */
function runsInHelper(file) {
  return /^src\/(?:sandbox\/files\/inside|files\/local)\//.test(file);
}

/** The files below the heading of a walk. */
function listedFiles(title) {
  const [, ...sections] = readFileSync(new URL('ARCHITECTURE.md', ROOT), 'utf8').split(/^### /m);
  const section = sections.find((text) => text.startsWith(`${title} (`)) ?? '';
  return new Set([...section.matchAll(/`(src\/[^`]+\.ts)`/g)].map(([, file]) => file));
}

/** The client is another process, so that only the server's functions count. */
async function serverWalks(recorder) {
  const { DEFAULT_CONFIG, serve } = await library('server');
  const server = await serve(DEFAULT_CONFIG);
  const client = fork(fileURLToPath(import.meta.url), [server.url]);
  const ended = new Promise((resolve) => client.on('exit', resolve));
  client.on('message', async ({ title, phase }) => {
    await recorder[phase](title);
    client.send('go');
  });
  await ended;
  await server.close();
}

async function drive(url) {
  const { TestClient } = await library('testing');
  const folder = mkdtempSync(join(tmpdir(), 'trace-walks-'));
  const uri = pathToFileURL(folder).href;
  const client = await TestClient.connect(url);
  await client.handshake();
  const record = (message) =>
    new Promise((resolve) => {
      process.once('message', resolve);
      process.send(message);
    });
  const walk = async (title, run) => {
    await record({ title, phase: 'begin' });
    await run();
    await record({ title, phase: 'end' });
  };
  const start = (processId, script) =>
    client.call('process/start', {
      processId,
      argv: ['sh', '-c', script],
      cwd: 'file:///',
      env: { PATH: '/usr/bin:/bin' },
      tty: false,
    });

  // The first requests load modules; the walks are about the ones after them.
  for (const id of ['first', 'second']) {
    await start(id, 'true');
    await client.closedProcess(id);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  await walk('Start a process', () => start('sleeper', 'sleep 100'));
  await client.call('process/terminate', { processId: 'sleeper' });
  await client.closedProcess('sleeper');

  await start('printer', 'sleep 1; printf x; sleep 100');
  await new Promise((resolve) => setTimeout(resolve, 500));
  await walk('A byte of output', () => client.waitFor(({ method }) => method === 'process/output'));
  await client.call('process/terminate', { processId: 'printer' });
  await client.closedProcess('printer');

  const sandbox = { type: 'workspaceWrite', cwd: uri, excludeSlashTmp: true };
  const write = () => client.call('fs/writeFile', { path: `${uri}/a`, dataBase64: 'aGVsbG8=', sandbox });
  await write();
  await walk('A sandboxed file write', write);

  const web = createServer((_request, response) => {
    response.write('one');
    setTimeout(() => response.end('two'), 100);
  });
  await new Promise((resolve) => web.listen(0, '127.0.0.1', resolve));
  const request = { method: 'GET', url: `http://127.0.0.1:${web.address().port}/`, streamResponse: true };
  const stream = async (requestId) => {
    await client.call('http/request', { ...request, requestId });
    await client.waitFor(
      ({ method, params }) =>
        method === 'http/request/bodyDelta' && params.requestId === requestId && params.done,
    );
  };
  await stream('first');
  await walk('A streamed HTTP request', () => stream('second'));
  web.close();
  await client.close();
  rmSync(folder, { recursive: true });
  process.exit();
}

/** Harness, relay, executor and server in one process. */
async function relayWalk(recorder) {
  const { bearerAuth, connectRemote, runRemoteEnvironment, startRelay } = await library('relay');
  const { DEFAULT_CONFIG } = await library('server');
  const { writeToken } = await import(new URL('relay/service/access/access-tokens.js', DIST).href);
  const { Seal } = await import(new URL('relay/service/access/sealed-text.js', DIST).href);
  const { createLogger } = await import(new URL('observability/log.js', DIST).href);
  const [environmentId, secret] = ['traced', randomBytes(32).toString('hex')];
  const token = (role) => writeToken(new Seal(secret), { id: role, role, environmentId, expiresAt: null });

  const relay = await startRelay({
    address: { kind: 'websocket', host: '127.0.0.1', port: 0, secure: false },
    ...{ tls: null, publicUrl: null, nodeUrl: null, revokedFile: null, auditLog: null },
    ...{ secret, store: 'memory', metrics: false, log: createLogger('error', () => {}) },
  });
  const target = { registryUrl: relay.url, environmentId };
  const stop = new AbortController();
  const auth = bearerAuth(token('executor'));
  const executor = runRemoteEnvironment({ ...target, auth, server: DEFAULT_CONFIG }, { signal: stop.signal });
  const client = await untilConnected(() => connectRemote({ ...target, auth: token('harness') }));
  await client.call('environment/status', {});
  await recorder.begin();
  await client.call('environment/status', {});
  await recorder.end('A relayed request');
  await client.close();
  stop.abort();
  await executor.catch(() => {});
  await relay.close();
}

async function untilConnected(connect) {
  for (let attempt = 0; attempt < 50; attempt++) {
    const client = await connect().catch(() => null);
    if (client !== null) return client;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('the executor did not come');
}

/** Client, proxy and server in one process. */
async function recoveryWalk(recorder) {
  const { ExecServerClient } = await library('client');
  const { startServer, TcpProxy } = await library('testing');
  const server = await startServer();
  const proxy = await TcpProxy.open(server.url);
  const client = await ExecServerClient.connect({ url: proxy.url });
  const printer = await client.backend.start({
    processId: 'printer',
    argv: ['sh', '-c', 'while :; do echo line; sleep 0.05; done'],
    cwd: 'file:///',
    env: { PATH: '/usr/bin:/bin' },
    tty: false,
  });
  const recovered = new Promise((resolve) => {
    client.onStateChange((state) => state === 'connected' && resolve());
  });
  await recorder.begin();
  proxy.drop();
  await recovered;
  await client.call('environment/status', {});
  await recorder.end('Recovery of a lost connection');
  await printer.terminate();
  await client.close();
  await proxy.close();
  await server.close();
}
