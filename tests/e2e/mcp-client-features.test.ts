import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
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
import { waitFor } from '../support/wait-for.ts';

let fixture: McpFixture;
let asking: McpFixture;
let elsewhere: string;

beforeAll(async () => {
  [fixture, asking] = await Promise.all([McpFixture.open(), McpFixture.open({ ask: true })]);
  elsewhere = realpathSync(mkdtempSync(join(tmpdir(), 'mcp-roots-')));
});

afterAll(async () => {
  await Promise.all([fixture?.close(), asking?.close()]);
  rmSync(elsewhere, { recursive: true, force: true });
});

/** Connects over a pair of streams in this process. */
async function using<T>(
  generation: Generation,
  { servers, options }: McpFixture,
  offers: Offers,
  work: (client: McpClient) => Promise<T>,
): Promise<T> {
  const client = await connectMcp(generation, { servers, log: options.log }, offers);
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

const pwd = async (client: McpClient) =>
  (await client.call('exec_command', { cmd: 'pwd', login: false })).text.trim().split('\n').at(-1);

describe.each(GENERATIONS)('a client of %s', (generation) => {
  test('that names roots works in the first', async () => {
    const roots = () => [pathToFileURL(elsewhere).href, 'file:///does/not/exist'];
    expect(await using(generation, fixture, { roots }, pwd)).toBe(elsewhere);
  });

  test('that names none works in the directory of the server', async () => {
    expect(await using(generation, fixture, { roots: () => [] }, pwd)).toBe(fixture.root);
    expect(await using(generation, fixture, {}, pwd)).toBe(fixture.root);
  });

  test('whose roots do not exist gets the reason instead of another directory, until it corrects them', async () => {
    const uris = ['file:///does/not/exist'];
    await using(generation, fixture, { roots: () => uris }, async (client) => {
      const refused = await client.call('exec_command', { cmd: 'touch elsewhere', login: false });
      expect(refused).toMatchObject({ isError: true, text: expect.stringContaining('/does/not/exist') });
      expect(existsSync(join(fixture.root, 'elsewhere'))).toBe(false);
      uris[0] = pathToFileURL(elsewhere).href;
      expect(await pwd(client)).toBe(elsewhere);
    });
  });

  test('whose roots are outside of --root learns it before the first change', async () => {
    const confined = await McpFixture.open({ confineRoots: true });
    const roots = () => [pathToFileURL(elsewhere).href];
    await using(generation, confined, { roots }, async (client) => {
      const write = () => client.call('write_file', { path: 'new.txt', content: 'x' });
      const notice = `The root ${elsewhere} of the client is not used: it is outside of ${confined.root}.`;
      const refused = await write();
      expect(refused).toMatchObject({ isError: true, text: expect.stringContaining(notice) });
      expect((await write()).text).toMatch(/^\S+new\.txt was created/);
    });
    await using(generation, confined, { roots }, async (client) => {
      const { text, isError } = await client.call('list_directory', {});
      expect(isError).toBe(false);
      expect(text).toContain(`The tools work in ${confined.root}.`);
    });
    await confined.close();
  });

  test('is asked before a change, and only then', async () => {
    const questions: string[] = [];
    const elicit = (message: string) => {
      questions.push(message);
      return message.includes('touch') ? ('accept' as const) : ('decline' as const);
    };
    await using(generation, asking, { elicit }, async (client) => {
      const run = (cmd: string) => client.call('exec_command', { cmd, login: false });
      expect((await run('touch allowed; ls')).text).toContain('allowed');
      const declined = await run('rm allowed');
      expect(declined).toMatchObject({ isError: true, text: expect.stringContaining('declined') });
      expect((await client.call('list_directory', {})).text).toContain('allowed');
      const file = { path: 'new.txt', content: 'x' };
      expect((await client.call('write_file', file)).isError).toBe(true);
    });
    expect(questions).toEqual([
      expect.stringContaining('touch allowed; ls'),
      expect.stringContaining('rm allowed'),
      expect.stringContaining('new.txt'),
    ]);
  });

  test('that cannot be asked may read, and learns why it may not change', () =>
    using(generation, asking, {}, async (client) => {
      expect((await client.call('list_directory', {})).isError).toBe(false);
      const refused = await client.call('exec_command', { cmd: 'true', login: false });
      expect(refused).toMatchObject({ isError: true, text: expect.stringMatching(/--ask.*elicitation/) });
    }));

  test('that cancels a call does not end the program, and finds it in the next answer', () =>
    using(generation, fixture, {}, async (client) => {
      const stop = new AbortController();
      const marker = join(fixture.root, `cancelled-${generation}`);
      const cmd = `echo started; mkdir ${marker}; sleep 1000`;
      const call = client.call(
        'exec_command',
        { cmd, login: false, yield_time_ms: 30_000 },
        { signal: stop.signal },
      );
      await waitFor('the program', () => mkdirOnce(marker));
      stop.abort();
      await expect(call).rejects.toThrow();
      const { text } = await client.call('list_processes', {});
      const [, process, cursor] =
        /An earlier call of exec_command was cancelled\..* process (\w+) .* the cursor (\S+) /.exec(text) ??
        [];
      expect(text).toContain(`- ${process}; running`);
      expect((await client.call('read_output', { process, cursor })).text).toContain('started');
      expect((await client.call('kill_process', { process })).isError).toBe(false);
      expect((await client.call('list_processes', {})).text).not.toContain('was cancelled');
    }));
});

/** Whether the program has made the directory. */
function mkdirOnce(path: string): boolean {
  try {
    mkdirSync(join(path, 'seen'));
    return true;
  } catch {
    return false;
  }
}

test('roots that change during a session are followed', async () => {
  let root = elsewhere;
  const roots = () => [pathToFileURL(root).href];
  await using('2025-11-25', fixture, { roots }, async (client) => {
    expect(await pwd(client)).toBe(elsewhere);
    root = fixture.root;
    await client.rootsChanged();
    expect(await pwd(client)).toBe(fixture.root);
  });
});
