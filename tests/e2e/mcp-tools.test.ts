import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  connectMcp,
  GENERATIONS,
  type Generation,
  type McpClient,
  type Offers,
} from '../support/mcp-client.ts';
import { McpFixture } from '../support/mcp-server.ts';

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
  offers: Offers = {},
): Promise<T> {
  const args = ['mcp', '-E', fixture.server.url, '--root', fixture.root, '--sandbox', 'off'];
  const env = { HOME: fixture.root };
  const place = transport === 'http' ? { url } : { args, cwd: fixture.root, env };
  const client = await connectMcp(generation, place, offers);
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

/** The reference of the process that a text names. */
function processOf(text: string): string {
  const [, ref] = /^Process (\w+) /m.exec(text) ?? [];
  if (ref === undefined) throw new Error(`no process in: ${text}`);
  return ref;
}

const PLACES = GENERATIONS.flatMap((generation) =>
  (['http', 'stdio'] as const).map((transport) => ({ generation, transport })),
);

describe.each(PLACES)('a client of $generation over $transport', ({ generation, transport }) => {
  test('runs every tool', () =>
    using(generation, transport, async (client) => {
      const names = (await client.tools()).map(({ name }) => name);
      const used = new Set<string>();
      const call = (name: string, args: Record<string, unknown>) => {
        used.add(name);
        return client.call(name, args);
      };
      const file = join(fixture.root, `${generation}-${transport}.txt`);

      expect((await call('write_file', { path: file, content: 'one\ntwo\n' })).isError).toBe(false);
      expect((await call('edit_file', { path: file, old_text: 'two', new_text: 'zwei' })).isError).toBe(
        false,
      );
      expect(readFileSync(file, 'utf8')).toBe('one\nzwei\n');
      expect((await call('read_file', { path: file })).text).toContain('zwei');
      expect((await call('list_directory', { path: fixture.root })).text).toContain(`${transport}.txt`);
      expect((await call('search_files', { pattern: 'zwei', path: fixture.root })).text).toContain('zwei');

      const cmd = 'read name; echo "hello $name"; sleep 1000';
      const started = await call('exec_command', { cmd, tty: true, login: false, yield_time_ms: 250 });
      const process = processOf(started.text);
      await call('write_stdin', { process, chars: 'bob\n' });
      const waited = await call('wait_process', { process, until: 'output', pattern: 'hello bob' });
      expect(waited.isError).toBe(false);
      expect((await call('list_processes', {})).text).toContain(process);
      expect((await call('kill_process', { process })).isError).toBe(false);
      expect((await call('read_output', { process, cursor: '0.0' })).text).toContain('hello bob');
      expect([...used].sort()).toEqual([...names].sort());
    }));
});

describe.each(GENERATIONS)('a client of %s', (generation) => {
  test('reads the rest of long output as a resource', () =>
    using(generation, 'http', async (client) => {
      const { content } = await client.call('exec_command', { cmd: 'seq 100000', login: false });
      const link = content.find(({ type }) => type === 'resource_link');
      expect((await client.resources()).map(({ uri }) => uri)).toContain(link?.uri);
      expect(await client.read(link!.uri!)).toContain('\n50000\n50001\n');
      await expect(client.read('exec-server://local/processes/none/output')).rejects.toThrow(/none/);
    }));

  test('gets progress notifications when it asks for them', () =>
    using(generation, 'http', async (client) => {
      const progress: number[] = [];
      const onProgress = (report: { readonly progress: number }) => progress.push(report.progress);
      const args = { cmd: 'sleep 2.5', login: false, yield_time_ms: 10_000 };
      await client.call('exec_command', args, { onProgress });
      expect(progress.length).toBeGreaterThan(0);
      expect(progress).toEqual([...progress].sort((a, b) => a - b));
    }));

  test('works in the roots that it names', () =>
    using(
      generation,
      'stdio',
      async (client) => {
        const { text } = await client.call('exec_command', { cmd: 'pwd', login: false });
        expect(text).toContain('/tmp');
      },
      { roots: () => [pathToFileURL('/tmp').href] },
    ));
});
