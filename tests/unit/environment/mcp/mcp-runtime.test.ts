import { afterEach, expect, it, vi } from 'vitest';
import type { DiscoveredRoot } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import type { Environment } from '../../../../src/environment/environment.ts';
import { MAX_MCP_SERVERS, MCP_RETRY_MS } from '../../../../src/environment/limits.ts';
import { McpRuntime } from '../../../../src/environment/mcp/mcp-runtime.ts';
import { rootIn } from '../capability-roots/support.ts';

const runtimes: McpRuntime<unknown>[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
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

function newRuntime(): McpRuntime<unknown> {
  const runtime = new McpRuntime<unknown>({ connect: (transport) => transport.start() });
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
  const runtime = new McpRuntime<unknown>({
    connect: async (transport, { name }) => {
      order.push(`${name} starts`);
      await transport.start();
    },
  });
  runtimes.push(runtime);
  const executor = () => {
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const process = {
      state: { exitCode: 0 },
      async closeStdin() {
        order.push('stdin is closed');
        // The exit takes a while.
        setImmediate(() => {
          order.push('it exits');
          end();
        });
      },
      terminate: async () => true,
      async *events() {
        await ended;
        yield { type: 'closed', seq: 1 };
      },
    };
    return { backend: { start: async () => process } };
  };
  await runtime.update(stepWith(['one'], executor()));
  await runtime.update(stepWith(['one'], executor()));
  expect(order).toEqual(['one starts', 'stdin is closed', 'it exits', 'one starts']);
  await runtime.dispose();
});
