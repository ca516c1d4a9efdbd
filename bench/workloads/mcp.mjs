// The MCP server as an agent starts it, compared with the agent layer in this process and with a plain server.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { ours, ownSpec, startSpec } from '../harness/servers.mjs';
import { median, percentile } from '../harness/statistics.mjs';
import { Connection } from '../wire/connection.mjs';
import { valueAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { now } from './pace.mjs';

/** @type {import('./index.mjs').Workload[]} */
export const mcp = [
  {
    name: 'mcp-command',
    title: 'exec_command of true through stdio MCP',
    against: 'nothing',
    rows: [
      ...latencyRows('ms'),
      { key: 'agent', label: 'AgentExec, p50', unit: 'ms', better: 'lower' },
      { key: 'extra', label: 'more than AgentExec', unit: 'ms', better: 'lower', goal: valueAtMost(10) },
    ],
    run: ({ url, quick }) => measureCommands(url, quick ? 3 : 300),
  },
  {
    name: 'mcp-startup',
    title: 'from exec to the list of tools, stdio MCP',
    against: 'nothing',
    standalone: true,
    rows: [
      { key: 'startup', label: 'median', unit: 'ms', better: 'lower' },
      { key: 'serve', label: 'serve to initialize', unit: 'ms', better: 'lower' },
      { key: 'share', label: 'of serve', unit: 'x', better: 'lower', goal: valueAtMost(1.3) },
    ],
    run: ({ quick }) => measureStartup(quick ? 1 : 15),
  },
];

async function measureCommands(url, count) {
  const { ExecServerClient } = await ours('client/index.js');
  const { AgentExec } = await ours('agent/index.js');
  const client = await ExecServerClient.connect(url);
  const shell = { name: 'sh', path: '/bin/sh' };
  const exec = new AgentExec({ targets: [{ id: 'box', backend: client.backend, shell, cwd: 'file:///' }] });
  const server = new McpProcess(['-E', url, '--root', '/', '--sandbox', 'off']);
  const samples = { mcp: [], agent: [] };
  try {
    await server.initialize();
    for (let i = 0; i < count; i++) {
      samples.mcp.push(await timeOf(() => server.exec('true')));
      samples.agent.push(await timeOf(() => throughAgent(exec, `call-${i}`)));
    }
  } finally {
    await server.stop();
    await exec.close();
    await client.close();
  }
  const measured = latency(samples.mcp, 'ms');
  const agent = percentile(samples.agent, 0.5);
  return { ...measured, agent, extra: measured.p50 - agent };
}

async function throughAgent(exec, callId) {
  const { text, exitCode } = await exec.execCommand({ cmd: 'true', login: false }, { callId });
  if (exitCode !== 0) throw new Error(text);
}

/** Both take turns, so that they see the same conditions. */
async function measureStartup(count) {
  const samples = { mcp: [], serve: [] };
  for (let i = 0; i < count; i++) {
    samples.mcp.push(await timeOf(startMcp));
    samples.serve.push(await timeOf(startServe));
  }
  const [startup, serve] = [median(samples.mcp), median(samples.serve)];
  return { startup, serve, share: startup / serve };
}

/** Returns how to stop what was started, which is not timed. */
async function startMcp() {
  const server = new McpProcess([]);
  await server.initialize();
  const { tools } = await server.request('tools/list', {});
  if (!tools.some(({ name }) => name === 'exec_command')) throw new Error('exec_command is not listed');
  return () => server.stop();
}

async function startServe() {
  const running = await startSpec(ownSpec());
  const connection = await Connection.open(running.url);
  await connection.initialize();
  return async () => {
    connection.close();
    await running.stop();
  };
}

async function timeOf(work) {
  const began = now();
  const finish = await work();
  const took = now() - began;
  await finish?.();
  return took;
}

/** `exec-server mcp` and its client, with nothing in between. */
class McpProcess {
  #child;
  #ended;
  #waiting = new Map();
  #id = 0;

  constructor(args) {
    const { command, args: own } = ownSpec();
    const env = { ...process.env };
    delete env.NODE_EXTRA_CA_CERTS;
    this.#child = spawn(command, [...own, 'mcp', ...args], { env, stdio: ['pipe', 'pipe', 2] });
    this.#ended = new Promise((resolve) => this.#child.once('close', resolve));
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#receive(JSON.parse(line)));
  }

  async initialize() {
    const clientInfo = { name: 'bench', version: '1' };
    await this.request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
    this.#send({ method: 'notifications/initialized' });
  }

  async exec(cmd) {
    const args = { name: 'exec_command', arguments: { cmd, login: false } };
    const { content, isError } = await this.request('tools/call', args);
    if (isError || !content[0].text.includes('exited with code 0')) throw new Error(content[0].text);
  }

  request(method, params) {
    const id = ++this.#id;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#send({ id, method, params });
    });
  }

  async stop() {
    this.#child.stdin.end();
    await this.#ended;
  }

  #send(message) {
    this.#child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  #receive({ id, result, error }) {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(result);
    else waiting?.reject(new Error(error.message));
  }
}
