// The tools of a model, compared with the agent layer that they use. Both take turns on one connection.
import { ours } from '../harness/servers.mjs';
import { percentile } from '../harness/statistics.mjs';
import { valueAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { now } from './pace.mjs';

const COMMAND = { cmd: 'true', login: false };

/** @type {import('./index.mjs').Workload[]} */
export const agent = [
  {
    name: 'agent-tools',
    title: 'exec_command of true through the tools',
    against: 'nothing',
    rows: [
      ...latencyRows('ms'),
      { key: 'agent', label: 'AgentExec, p50', unit: 'ms', better: 'lower' },
      { key: 'share', label: 'of AgentExec', unit: 'x', better: 'lower', goal: valueAtMost(1.5) },
    ],
    async run({ url, quick }) {
      const { ExecServerClient } = await ours('client/index.js');
      const client = await ExecServerClient.connect(url);
      try {
        return await measure(client, quick ? 3 : 300);
      } finally {
        await client.close();
      }
    },
  },
];

async function measure(client, count) {
  const { AgentExec } = await ours('agent/index.js');
  const { createAgentTools } = await ours('agent/toolset/index.js');
  const { backend, processes } = client;
  const shell = { name: 'sh', path: '/bin/sh' };
  const target = { id: 'box', backend, processes, shell, cwd: 'file:///' };
  const exec = new AgentExec({ targets: [target] });
  const tools = createAgentTools({ environments: [{ name: 'box', environment: client }], roots: ['/'] });
  const samples = { tools: [], agent: [] };
  for (let i = 0; i < count; i++) {
    samples.tools.push(await timeOf(() => throughTools(tools)));
    samples.agent.push(await timeOf(() => throughAgent(exec, `call-${i}`)));
  }
  await Promise.all([tools.close(), exec.close()]);
  const measured = latency(samples.tools, 'ms');
  const other = percentile(samples.agent, 0.5);
  return { ...measured, agent: other, share: measured.p50 / other };
}

async function timeOf(work) {
  const began = now();
  await work();
  return now() - began;
}

async function throughTools(tools) {
  const { text, structured } = await tools.tool('exec_command').call(COMMAND);
  if (structured.exit_code !== 0) throw new Error(text);
}

async function throughAgent(exec, callId) {
  const { text, exitCode } = await exec.execCommand(COMMAND, { callId });
  if (exitCode !== 0) throw new Error(text);
}
