import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  AgentExec,
  type Clock,
  type ExecEvent,
  type ExecPolicy,
  environmentTarget,
  type HostRequest,
} from '../../src/agent/index.ts';
import { EnvironmentManager } from '../../src/environment/index.ts';
import { startServer } from '../../src/testing/index.ts';
import { waitFor } from '../support/wait-for.ts';
import { type WebServer, webServer } from '../support/web-servers.ts';

let folder: string;
let web: WebServer;
let requests: string[];
let ends: (() => unknown)[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'agent-network-'));
  requests = [];
  web = await webServer(({ url = '' }, response) => {
    requests.push(url);
    response.end('reached');
  });
  ends = [() => rmSync(folder, { recursive: true, force: true }), () => web.close()];
});
afterEach(async () => {
  for (const end of ends.reverse()) await end();
});

const KINDS = ['local', 'remote'] as const;

/** A hundredth of the real speed, so that a slow machine does not pass a time limit. */
const SLOW_CLOCK: Clock = {
  now: () => performance.now() / 100,
  epochMs: () => Date.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms * 100);
    return () => clearTimeout(timer);
  },
};

async function openAgent(
  kind: (typeof KINDS)[number],
  policy: ExecPolicy,
  options: { readonly clock?: Clock } = {},
) {
  const manager = new EnvironmentManager({ environments: [], default: null, includeLocal: true });
  ends.push(() => manager.dispose());
  let environment = manager.get('local')!;
  if (kind === 'remote') {
    const server = await startServer();
    ends.push(() => server.close());
    environment = manager.add('worker', { type: 'websocket', url: server.url });
  }
  const events: ExecEvent[] = [];
  const target = await environmentTarget(environment, { cwd: pathToFileURL(folder).href });
  const exec = new AgentExec({
    targets: [target],
    policy,
    allowLogin: false,
    ...options,
    onEvent: (event) => events.push(event),
  });
  ends.push(() => exec.close());
  /** Runs a command to its end. */
  const run = async (cmd: string) => {
    let result = await exec.execCommand({ cmd, yield_time_ms: 30_000 }, { callId: 'c1' });
    const texts = [result.text];
    while (result.sessionId !== null) {
      result = await exec.writeStdin({ session_id: result.sessionId, yield_time_ms: 30_000 });
      texts.push(result.text);
    }
    return { ...result, text: texts.join('') };
  };
  const decisions = () => events.filter((event) => event.type === 'networkDecision');
  return { exec, run, events, decisions };
}

/** Lets hosts of this machine be decided like others; a test can reach no others. */
const LOCAL_HOSTS = { proxy: { allowLocalBinding: true } };
const fetch = (url: string) => `curl -s -m 60 --noproxy '' ${url}`;
/** Keeps the status of a proxy's answer. */
const STATUS = `grep -o '"blocked"'`;
const direct = (url: string) => `curl -s -m 60 --noproxy '*' ${url}`;

describe.each(KINDS)('a managed network in a %s environment', (kind) => {
  test('denies every host by default, and reports it to the model and in events', async () => {
    const { run, decisions } = await openAgent(kind, { chooseNetwork: () => ({}) });
    const result = await run(fetch('http://a.example/'));
    expect(result.text).toContain('Network access denied: a.example:80 (this host is not allowed)\n');
    expect(result.structured.network_denials).toEqual(result.networkDenials);
    expect(result.networkDenials).toEqual([{ host: 'a.example', port: 80, reason: 'not_allowed' }]);
    expect(decisions()).toEqual([
      {
        type: 'networkDecision',
        callId: 'c1',
        processId: expect.stringMatching(/^\d+$/),
        decision: 'deny',
        protocol: 'http',
        host: 'a.example',
        port: 80,
        reason: 'not_allowed',
      },
    ]);
  });

  test('names the setting that allows local addresses, when one is denied', async () => {
    const { run } = await openAgent(kind, {
      chooseNetwork: () => ({}),
      approveHost: async () => ({ approved: true }),
    });
    const { text, networkDenials } = await run(fetch(`${web.url}/`));
    expect(text).toContain('the setting proxy.allowLocalBinding allows local and private addresses)\n');
    expect(networkDenials).toMatchObject([{ reason: 'not_allowed_local' }]);
    expect(requests).toEqual([]);
  });

  test('leaves a program no other way than its proxy, also without a sandbox of files', async () => {
    const { run } = await openAgent(kind, { chooseNetwork: () => LOCAL_HOSTS });
    const result = await run(`${direct(`${web.url}/direct`)}; echo "status $?" | tee written`);
    expect(result.text).toMatch(/status 7\n$/);
    expect(requests).toEqual([]);
    expect(existsSync(join(folder, 'written'))).toBe(true);
  });

  test('asks the policy about each host, with the command and its session', async () => {
    const asked: HostRequest[] = [];
    const { run, events, decisions } = await openAgent(kind, {
      chooseNetwork: () => LOCAL_HOSTS,
      approveHost: async ({ callId, cmd }, host, { signal }) => {
        expect([callId, cmd.includes('curl'), signal.aborted]).toEqual(['c1', true, false]);
        asked.push(host);
        return host.port === web.port ? { approved: true } : { approved: false, reason: 'not needed' };
      },
    });
    const result = await run(`${fetch(`${web.url}/allowed`)}; ${fetch('http://a.example/')} | ${STATUS}`);
    const begin = events.find((event) => event.type === 'begin')!;
    const { processId } = begin;
    expect(result.structured.output).toBe('reached"blocked"\n');
    expect(requests).toEqual(['/allowed']);
    expect(asked).toEqual([
      { processId, protocol: 'http', host: '127.0.0.1', port: web.port },
      { processId, protocol: 'http', host: 'a.example', port: 80 },
    ]);
    expect(result.text).toContain('Network access denied: a.example:80 (not needed)\n');
    expect(decisions().map((event) => [event.decision, event.host])).toEqual([
      ['allow', '127.0.0.1'],
      ['deny', 'a.example'],
    ]);
    expect(events.at(-1)!.type).toBe('end');
  });

  test('denies a host when the policy throws, and lets the program continue', async () => {
    const { run } = await openAgent(kind, {
      chooseNetwork: () => LOCAL_HOSTS,
      approveHost: async () => {
        throw new Error('broken policy');
      },
    });
    const result = await run(`${fetch(`${web.url}/`)} | ${STATUS}; exit 3`);
    expect(result.exitCode).toBe(3);
    expect(result.structured.output).toBe('"blocked"\n');
    expect(requests).toEqual([]);
  });

  test('withdraws a question when its program ends', async () => {
    let signal: AbortSignal | null = null;
    const { exec } = await openAgent(kind, {
      chooseNetwork: () => LOCAL_HOSTS,
      approveHost: (_request, _host, options) => {
        signal = options.signal;
        return new Promise(() => {});
      },
    });
    const call = exec.execCommand({ cmd: fetch(`${web.url}/`), yield_time_ms: 250 }, { callId: 'c1' });
    await waitFor('the question', () => signal !== null);
    expect(signal!.aborted).toBe(false);
    await exec.terminateAll();
    await call;
    await waitFor('the end of the question', () => signal!.aborted);
  });

  test('stays enforced when a command runs again without a sandbox', async () => {
    let denied = 0;
    const policy: ExecPolicy = {
      chooseSandbox: () => ({ type: 'readOnly' }),
      chooseNetwork: () => LOCAL_HOSTS,
      onDenied: async () => {
        denied++;
        return true;
      },
    };
    const { run } = await openAgent(kind, policy, { clock: SLOW_CLOCK });
    const result = await run(`echo x > file || exit 1; ${direct(`${web.url}/`)}; echo "status $?"`);
    expect(denied).toBe(1);
    expect(result.text).toMatch(/status 7\n$/);
    expect(existsSync(join(folder, 'file'))).toBe(true);
    expect(requests).toEqual([]);
  });

  test('is advice only when the policy does not enforce it', async () => {
    const { run } = await openAgent(kind, { chooseNetwork: () => ({ enforce: false }) });
    const { structured } = await run(`${direct(`${web.url}/`)}; ${fetch(web.url)} | ${STATUS}`);
    expect(structured.output).toBe('reached"blocked"\n');
  });
});
