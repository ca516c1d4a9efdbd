import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectMcp, GENERATIONS, type Generation, type McpClient } from '../support/mcp-client.ts';
import { McpFixture, processOf } from '../support/mcp-server.ts';

let fixture: McpFixture;
let url: string;

beforeAll(async () => {
  fixture = await McpFixture.open();
  url = await fixture.listen();
});

afterAll(() => fixture?.close());

async function using<T>(
  generation: Generation,
  transport: 'http' | 'stdio',
  work: (client: McpClient) => Promise<T>,
): Promise<T> {
  const args = ['mcp', '-E', fixture.server.url, '--root', fixture.root, '--sandbox', 'off'];
  const place = transport === 'http' ? { url } : { args, env: { HOME: fixture.root } };
  const client = await connectMcp(generation, place);
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

const PLACES = GENERATIONS.flatMap((generation) =>
  (['http', 'stdio'] as const).map((transport) => ({ generation, transport })),
);

describe.each(PLACES)('a client of $generation over $transport', ({ generation, transport }) => {
  test('runs every tool', () =>
    using(generation, transport, async (client) => {
      const names = (await client.tools()).map(({ name }) => name);
      const used = new Set<string>();
      const call = async (name: string, args: Record<string, unknown>) => {
        used.add(name);
        const { text, isError } = await client.call(name, args);
        expect(isError, text).toBe(false);
        return text;
      };
      const file = join(fixture.root, `${generation}-${transport}.txt`);

      await call('write_file', { path: file, content: 'one\ntwo\n' });
      await call('edit_file', { path: file, old_text: 'two', new_text: 'zwei' });
      expect(readFileSync(file, 'utf8')).toBe('one\nzwei\n');
      expect(await call('read_file', { path: file })).toContain('zwei');
      expect(await call('list_directory', { path: fixture.root })).toContain(`${transport}.txt`);
      expect(await call('search_files', { pattern: 'zwei', path: fixture.root })).toContain('zwei');

      const cmd = 'read name; echo "hello $name"; sleep 1000';
      const process = processOf(
        await call('exec_command', { cmd, tty: true, login: false, yield_time_ms: 250 }),
      );
      await call('write_stdin', { process, chars: 'bob\n' });
      expect(await call('wait_process', { process, pattern: 'hello bob' })).toContain('hello bob');
      expect(await call('list_processes', {})).toContain(process);
      await call('kill_process', { process });
      expect(await call('read_output', { process, cursor: '0.0' })).toContain('hello bob');
      expect([...used].sort()).toEqual([...names].sort());
    }));
});

describe.each(GENERATIONS)('a client of %s', (generation) => {
  test('sees flat schemas and annotations', () =>
    using(generation, 'http', async (client) => {
      for (const { name, annotations, inputSchema } of await client.tools()) {
        expect(annotations, name).toMatchObject({ readOnlyHint: expect.any(Boolean) });
        expect(JSON.stringify(inputSchema), name).not.toMatch(/anyOf|oneOf|allOf|\$ref/);
      }
    }));

  test('reads the rest of long output as a resource', () =>
    using(generation, 'http', async (client) => {
      const { content } = await client.call('exec_command', { cmd: 'seq 100000', login: false });
      const link = content.find(({ type }) => type === 'resource_link');
      expect((await client.resources()).map(({ uri }) => uri)).toContain(link?.uri);
      expect(await client.read(link!.uri!)).toContain('\n50000\n50001\n');
      await expect(client.read('exec-server://local/processes/none/output')).rejects.toThrow(/none/);
      await expect(client.read('file:///etc/passwd')).rejects.toThrow(/exec-server:\/\//);
    }));

  test('gets progress notifications when it asks for them', () =>
    using(generation, 'http', async (client) => {
      const progress: number[] = [];
      const stop = new AbortController();
      const reported = new Promise<void>((resolve) => {
        const args = { cmd: 'sleep 1000', login: false, yield_time_ms: 30_000 };
        const onProgress = (report: { readonly progress: number }) => {
          progress.push(report.progress);
          if (progress.length > 1) resolve();
        };
        client.call('exec_command', args, { onProgress, signal: stop.signal }).catch(() => {});
      });
      await reported;
      stop.abort();
      expect(progress[1]).toBeGreaterThan(progress[0]!);
    }));
});
