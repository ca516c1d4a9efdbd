// A long job that is used through `exec-server mcp` on a machine behind a relay, while everything in between fails: the MCP client and
// the MCP server are killed, both connections to the relay are cut, and the relay is restarted. No line may be lost or repeated.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { TcpProxy } from '../../dist/testing/index.js';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const READER = fileURLToPath(new URL('./mcp-reader.mjs', import.meta.url));
const ENVIRONMENT = 'far';
const LINES_PER_SECOND = 100;
const EXIT_CODE = 7;
/** How long a connection stays cut. */
const CUT_MS = 5_000;

/** @param {{ seconds: number, report?: (line: string) => void }} options */
export async function runMcpSoak({ seconds, report = () => {} }) {
  const place = await Place.open();
  try {
    const job = new Job(place, seconds * LINES_PER_SECOND);
    const ended = job.read(seconds);
    await failOneByOne(place, job, { seconds, report });
    await ended;
    return job.check();
  } finally {
    await place.close();
  }
}

/** The failures, at even distances over the time of the job. The last one is over before the job ends. */
async function failOneByOne(place, job, { seconds, report }) {
  const cut = async (link) => {
    link.interrupt();
    await pause(CUT_MS);
    link.restore();
  };
  const failures = [
    ['the connection of the MCP server to the relay is cut for 5 s', () => cut(place.harnessLink)],
    ['the MCP client is killed', () => job.killClient()],
    ['the connection of the machine to the relay is cut for 5 s', () => cut(place.executorLink)],
    ['both connections are reset', () => place.dropLinks()],
    ['the MCP server is killed', () => job.killServer()],
    ['the relay is killed and started again', () => place.restartRelay()],
    [
      'both connections are cut for 5 s',
      () => Promise.all([cut(place.harnessLink), cut(place.executorLink)]),
    ],
  ];
  await job.started;
  const begin = performance.now();
  const distanceMs = (seconds * 1_000) / (failures.length + 1);
  for (const [index, [what, act]] of failures.entries()) {
    await pause(Math.max(0, begin + (index + 1) * distanceMs - performance.now()));
    report(`${job.progress()}; ${what}`);
    await act();
  }
}

/** A relay and an executor in programs of their own, behind two links that can be cut, and a home that knows the environment. */
class Place {
  #home = mkdtempSync(join(tmpdir(), 'soak-mcp-'));
  #programs = new Set();
  #relayArgs;
  #relay;

  static async open() {
    const place = new Place();
    try {
      await place.#start();
      return place;
    } catch (error) {
      await place.close();
      throw error;
    }
  }

  get env() {
    return { PATH: process.env.PATH, HOME: this.#home, XDG_RUNTIME_DIR: this.#home };
  }

  async #start() {
    const port = await freePort();
    this.executorLink = await TcpProxy.open(`ws://127.0.0.1:${port}`);
    this.harnessLink = await TcpProxy.open(`ws://127.0.0.1:${port}`);
    const [executorUrl, harnessUrl] = [this.executorLink, this.harnessLink].map(({ url }) =>
      url.replace('ws', 'http'),
    );
    const secret = join(this.#home, 'secret');
    await this.#run('token', '--out', secret);
    for (const role of ['executor', 'harness']) {
      const out = join(this.#home, role);
      await this.#run(
        'relay',
        'token',
        '--secret-file',
        secret,
        '--role',
        role,
        '--environment',
        ENVIRONMENT,
        '--out',
        out,
      );
    }
    const listen = ['--listen', `http://127.0.0.1:${port}`];
    const urls = ['--public-url', executorUrl, '--node-url', harnessUrl];
    this.#relayArgs = ['relay', '--secret-file', secret, ...listen, ...urls, '--log-level', 'error'];
    await this.#startRelay();
    const key = { EXEC_SERVER_API_KEY: readFileSync(join(this.#home, 'executor'), 'utf8').trim() };
    this.spawn([BIN, '--remote', executorUrl, '--environment-id', ENVIRONMENT, '--log-level', 'error'], key);
    const token = ['--token-file', join(this.#home, 'harness')];
    await this.#run('env', 'add', ENVIRONMENT, harnessUrl, ...token, '--environment-id', ENVIRONMENT);
    await this.#waitForExecutor();
  }

  /** Starts a program that ends with this place. */
  spawn(args, env = {}) {
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...this.env, ...env },
    });
    this.#programs.add(child);
    child.on('exit', () => this.#programs.delete(child));
    return child;
  }

  dropLinks() {
    this.harnessLink.drop();
    this.executorLink.drop();
  }

  async restartRelay() {
    await kill(this.#relay);
    await this.#startRelay();
  }

  async #startRelay() {
    this.#relay = this.spawn([BIN, ...this.#relayArgs]);
    await once(createInterface(this.#relay.stdout), 'line');
  }

  async #waitForExecutor() {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#run('env', 'test', ENVIRONMENT);
      } catch (error) {
        if (attempt === 20) throw error;
        await pause(500);
      }
    }
  }

  #run(...args) {
    return promisify(execFile)(process.execPath, [BIN, ...args], { env: this.env });
  }

  async close() {
    await Promise.all([...this.#programs].map(kill));
    await this.executorLink?.close();
    await this.harnessLink?.close();
    rmSync(this.#home, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A job with numbered lines, and what its readers have reported. */
class Job {
  #place;
  #lines;
  #output = '';
  #cursor = '0';
  #process = null;
  #reader = null;
  #mcpPid = null;
  #exitCode = null;
  #counts = { clients: 0, calls: 0, failedCalls: 0, lostBytes: 0 };
  #reportStart;
  started = new Promise((resolve) => {
    this.#reportStart = resolve;
  });

  constructor(place, lines) {
    this.#place = place;
    this.#lines = lines;
  }

  /** Reads until the job has ended. A new client continues where the one before was killed. */
  async read(seconds) {
    while (this.#exitCode === null) {
      const job =
        this.#process === null ? ['--command', this.#command(seconds)] : ['--process', this.#process];
      const args = [READER, '--environment', ENVIRONMENT, '--cursor', this.#cursor, ...job];
      this.#reader = this.#place.spawn(args);
      this.#counts.clients++;
      for await (const line of createInterface(this.#reader.stdout)) this.#take(JSON.parse(line));
      if (this.#process === null) throw new Error('the job could not be started');
    }
  }

  /** Prints line after line at a constant rate, however busy the machine is. */
  #command(seconds) {
    const script = `
      const begin = Date.now();
      let printed = 0;
      const timer = setInterval(() => {
        const due = Math.min(${this.#lines}, Math.floor((Date.now() - begin) * ${this.#lines} / ${seconds * 1_000}));
        while (printed < due) console.log('line ' + ++printed + ' of the job that must not lose any');
        if (printed < ${this.#lines}) return;
        clearInterval(timer);
        process.exitCode = ${EXIT_CODE};
      }, 20);`;
    return `exec '${process.execPath}' -e "${script}"`;
  }

  #take({ process, mcpPid, output, cursor, lostBytes, exitCode, failure }) {
    if (process !== undefined) {
      this.#process = process;
      this.#mcpPid = mcpPid;
      this.#reportStart();
    }
    if (failure !== undefined) this.#counts.failedCalls++;
    if (exitCode !== undefined) this.#exitCode = exitCode;
    if (cursor === undefined) return;
    this.#counts.calls++;
    this.#counts.lostBytes += lostBytes;
    this.#output += output;
    this.#cursor = cursor;
  }

  progress() {
    return `${this.#output.split('\n').length - 1} lines in ${this.#counts.calls} calls`;
  }

  killClient() {
    return kill(this.#reader);
  }

  /** Its client notices this and exits. */
  async killServer() {
    const ended = once(this.#reader, 'exit');
    process.kill(this.#mcpPid, 'SIGKILL');
    await ended;
  }

  /** Throws unless every line is there exactly once, in order, and the exit code is that of the job. */
  check() {
    const lines = this.#output.trimEnd().split('\n');
    for (const [index, line] of lines.entries()) {
      const expected = `line ${index + 1} of the job that must not lose any`;
      if (line !== expected)
        throw new Error(`got ${JSON.stringify(line)} in place of ${JSON.stringify(expected)}`);
    }
    if (lines.length !== this.#lines) throw new Error(`${lines.length} lines of ${this.#lines}`);
    if (this.#exitCode !== EXIT_CODE) throw new Error(`exit code ${this.#exitCode} in place of ${EXIT_CODE}`);
    return { ...this.#counts, lines: lines.length, bytes: this.#output.length, exitCode: this.#exitCode };
  }
}

async function kill(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
