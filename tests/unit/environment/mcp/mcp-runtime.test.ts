import { afterEach, expect, it, vi } from 'vitest';
import type { DiscoveredRoot } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import type { Environment } from '../../../../src/environment/environment.ts';
import {
  MAX_MCP_SERVERS,
  MCP_RESTART_FIRST_DELAY_MS,
  MCP_RESTARTS,
  MCP_RETRY_MS,
  MCP_STABLE_MS,
  MCP_START_TIMEOUT_MS,
} from '../../../../src/environment/limits.ts';
import { McpRuntime } from '../../../../src/environment/mcp/mcp-runtime.ts';
import type { McpConnect } from '../../../../src/environment/mcp/supervised-server.ts';
import { rootIn } from '../capability-roots/support.ts';

const runtimes: McpRuntime<unknown>[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  for (const runtime of runtimes.splice(0)) await runtime.dispose();
});

/** A step whose only plugin declares programs with these names. */
function stepWith(names: readonly string[], environment: object) {
  const root = rootIn('worker', 'tools');
  const servers = Object.fromEntries(names.map((name) => [name, { command: 'x' }]));
  const discovered: DiscoveredRoot = {
    id: 'tools',
    path: root.location.path,
    plugin: {
      manifest: { path: 'file:///m', contents: JSON.stringify({ mcpServers: servers }) },
      mcpConfig: null,
      appsConfig: null,
    },
    skills: [],
    namespaceManifests: [],
    warnings: [],
    error: null,
  };
  return [{ root, environment: environment as Environment, discovered, error: null }];
}

/** An executor on which every start fails. */
class FailingExecutor {
  starts = 0;
  readonly backend = {
    start: async () => {
      this.starts++;
      throw this.error;
    },
  };
  readonly error: ClientError;

  constructor(error: ClientError) {
    this.error = error;
  }
}

/** An executor whose programs exit when their stdin is closed, or when the test says so. */
class ProgramExecutor {
  starts = 0;
  exit = () => {};
  readonly #order: string[];

  constructor(order: string[] = []) {
    this.#order = order;
  }

  readonly backend = {
    start: async () => {
      this.starts++;
      this.#order.push('start');
      const exited = new Promise<void>((resolve) => {
        this.exit = resolve;
      });
      return {
        state: { exitCode: 0 },
        closeStdin: async () => {
          this.#order.push('stdin is closed');
          // The exit takes a while.
          setImmediate(() => {
            this.#order.push('exit');
            this.exit();
          });
        },
        terminate: async () => true,
        async *events() {
          await exited;
          yield { type: 'closed', seq: 1 };
        },
      };
    },
  };
}

function newRuntime(connect: McpConnect<unknown> = (transport) => transport.start()): McpRuntime<unknown> {
  const runtime = new McpRuntime<unknown>({ connect });
  runtimes.push(runtime);
  return runtime;
}

it('runs a limited number of servers', async () => {
  const names = Array.from({ length: MAX_MCP_SERVERS + 1 }, (_, number) => `s${number}`);
  const executor = new FailingExecutor(new ClientError('config', 'no'));
  const { servers, warnings } = await newRuntime().update(stepWith(names, executor));
  expect(servers).toHaveLength(MAX_MCP_SERVERS);
  expect(warnings).toEqual([
    `MCP server 's${MAX_MCP_SERVERS}' of plugin 'tools' is left out: there are more than ${MAX_MCP_SERVERS}`,
  ]);
  expect(executor.starts).toBe(MAX_MCP_SERVERS);
});

it('does not restart a server with invalid settings, but a much later step tries again', async () => {
  const executor = new FailingExecutor(new ClientError('config', 'no such setting'));
  const runtime = newRuntime();
  const step = stepWith(['one'], executor);
  const failed = {
    plugin: 'tools',
    name: 'one',
    state: 'failed',
    error: {
      kind: 'config',
      message: "MCP server 'one' of plugin 'tools' in environment 'worker': no such setting",
    },
  };
  expect((await runtime.update(step)).servers).toMatchObject([failed]);
  expect((await runtime.update(step)).servers).toMatchObject([failed]);
  expect(executor.starts).toBe(1);
  const now = performance.now();
  vi.spyOn(performance, 'now').mockReturnValue(now + MCP_RETRY_MS);
  expect((await runtime.update(step)).servers).toMatchObject([failed]);
  expect(executor.starts).toBe(2);
});

it('tries a failed server again through another handle', async () => {
  const [first, second] = [1, 2].map((number) => new FailingExecutor(new ClientError('config', `${number}`)));
  const runtime = newRuntime();
  await runtime.update(stepWith(['one'], first!));
  const { servers } = await runtime.update(stepWith(['one'], second!));
  expect(servers[0]!.error?.message).toMatch(/: 2$/);
  expect([first!.starts, second!.starts]).toEqual([1, 1]);
});

it('starts a server after the end of its predecessor', async () => {
  const order: string[] = [];
  const runtime = newRuntime();
  const [first, second] = [new ProgramExecutor(order), new ProgramExecutor(order)];
  await runtime.update(stepWith(['one'], first));
  await runtime.update(stepWith(['one'], second));
  expect(order).toEqual(['start', 'stdin is closed', 'exit', 'start']);
});

it('does not count the restarts of a server that ran for a minute', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const executor = new ProgramExecutor();
  const runtime = newRuntime();
  const step = stepWith(['one'], executor);
  for (let run = 1; run <= MCP_RESTARTS * 2; run++) {
    expect((await runtime.update(step)).servers).toMatchObject([{ state: 'ready' }]);
    expect(executor.starts).toBe(run);
    await vi.advanceTimersByTimeAsync(MCP_STABLE_MS);
    executor.exit();
    // The delay begins after the exit was noticed.
    for (let tick = 0; tick < 4; tick++) await vi.advanceTimersByTimeAsync(MCP_RESTART_FIRST_DELAY_MS / 2);
  }
});

it('ends a server that does not answer', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const order: string[] = [];
  const runtime = newRuntime(async (transport) => {
    await transport.start();
    await new Promise(() => {});
  });
  const step = runtime.update(stepWith(['one'], new ProgramExecutor(order)));
  await vi.advanceTimersByTimeAsync(MCP_START_TIMEOUT_MS);
  expect((await step).servers).toMatchObject([
    {
      state: 'starting',
      error: {
        kind: 'timeout',
        message: "MCP server 'one' of plugin 'tools' in environment 'worker': it did not answer within 60 s",
      },
    },
  ]);
  expect(order).toEqual(['start', 'stdin is closed', 'exit']);
});
