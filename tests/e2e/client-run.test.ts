import { mkdtempSync, realpathSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect, type ExecProcess, type ExecServerClient } from '../../src/client/index.ts';
import { type Environment, LocalEnvironment } from '../../src/environment/index.ts';
import { createConnector } from '../../src/environment/remote/create-connector.ts';
import { RemoteEnvironment } from '../../src/environment/remote/remote-environment.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { isAlive } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

let server: TestServer;
const hosts: Record<string, Pick<Environment, 'run' | 'spawn'>> = {};
const closing: (() => Promise<void>)[] = [];

beforeAll(async () => {
  server = await startServer();
  const client = await connect(server.url);
  const remote = new RemoteEnvironment('r', createConnector({ type: 'websocket', url: server.url }));
  const local = new LocalEnvironment();
  Object.assign(hosts, { client, remote, local });
  closing.push(
    () => client.close(),
    () => remote.dispose(),
    () => local.dispose(),
    () => server.close(),
  );
});
afterAll(async () => {
  for (const close of closing) await close();
});

const sh = (script: string) => ['/bin/sh', '-c', script];

describe.each(['client', 'remote', 'local'])('on %s', (name) => {
  const host = () => hosts[name]!;

  test('runs a program and a shell command line without any option', async () => {
    expect(await host().run(['echo', 'a  b'])).toMatchObject({ exitCode: 0, text: { stdout: 'a  b\n' } });
    const { text, exitCode } = await host().run('echo "$0" | wc -l; exit 3');
    expect([text.stdout.trim(), exitCode]).toEqual(['1', 3]);
  });

  test('runs in the directory of the server with its environment', async () => {
    const { text } = await host().run(sh('pwd; echo "$PATH"'));
    expect(text.stdout).toBe(`${realpathSync(process.cwd())}\n${process.env.PATH}\n`);
  });

  test('takes a native path, a relative path, a URI and a URL as directory', async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'a b é-')));
    const relative = `../${'../'.repeat(20)}${folder.slice(1)}`;
    for (const cwd of [folder, relative, pathToFileURL(folder).href, pathToFileURL(folder)]) {
      expect((await host().run(['pwd'], { cwd })).text.stdout).toBe(`${folder}\n`);
    }
    rmdirSync(folder);
  });

  test('adds variables, and inherits only what the policy selects', async () => {
    const script = sh('echo $MINE $HOME $(test "$PATH" && echo path)');
    const env = { MINE: 'yes' };
    expect((await host().run(script, { env })).text.stdout).toBe(`yes ${process.env.HOME} path\n`);
    const { text } = await host().run(script, { env, envPolicy: { includeOnly: ['PATH'] } });
    expect(text.stdout).toBe('yes path\n');
    const none = await host().run(script, { envPolicy: { inherit: 'none', set: { MINE: 'set' } } });
    expect(none.text.stdout).toMatch(/^set path\n$/);
  });

  test('reports output to callbacks in order while it collects it', async () => {
    const seen: string[] = [];
    // The two streams have no order of their own: the program prints each piece when the one before it was reported.
    async function* lineAfterEachPiece() {
      for (const reports of [2, 4]) {
        await waitFor('the callbacks', () => seen.length === reports);
        yield '\n';
      }
    }
    const { text } = await host().run(sh('printf é; read a; printf err >&2; read b; printf end'), {
      input: lineAfterEachPiece(),
      onStdout: (piece) => void seen.push(`out ${piece}`),
      onStderr: (piece) => void seen.push(`err ${piece}`),
      onOutput: async (piece, stream) => void seen.push(`${stream} ${piece}`),
    });
    expect(seen).toEqual(['stdout é', 'out é', 'stderr err', 'err err', 'stdout end', 'out end']);
    expect(text).toMatchObject({ stdout: 'éend', stderr: 'err' });
  });

  test('ends the program when a callback throws', async () => {
    const onStdout = (pid: string) => {
      throw new Error(`refused ${pid.trim()}`);
    };
    const error = (await host()
      .run(sh('echo $$; exec sleep 600'), { onStdout })
      .catch((e) => e)) as Error;
    expect(error.message).toMatch(/^refused \d+$/);
    await waitFor('the end', () => !isAlive(Number(error.message.slice(8))));
  });

  test('feeds text, bytes, iterables and streams', async () => {
    async function* pieces() {
      yield 'a';
      yield new Uint8Array([98]);
    }
    const inputs = ['ab', Buffer.from('ab'), ['a', 'b'], pieces(), Readable.from(['a', Buffer.from('b')])];
    for (const input of inputs) {
      expect((await host().run(['cat'], { input })).text.stdout).toBe('ab');
    }
  });

  test('does not wait for input that a program no longer reads', async () => {
    const input = new PassThrough();
    expect((await host().run(sh('exit 4'), { input })).exitCode).toBe(4);
    expect(input.destroyed).toBe(true);
  });

  test('ends the program when its input fails', async () => {
    const input = Readable.from(
      (async function* () {
        yield 'a';
        throw new Error('unplugged');
      })(),
    );
    await expect(host().run(['cat'], { input })).rejects.toThrow('unplugged');
  });

  test('runs on a terminal of a given size that can be resized', async () => {
    const one = await host().run(sh('stty size; echo $TERM'), { tty: { rows: 30, cols: 100 } });
    expect(one.text.terminal).toBe('30 100\r\nxterm-256color\r\n');
    const terminal = await host().spawn(sh('stty size; read _; stty size'), { tty: true });
    let text = '';
    for await (const piece of terminal) {
      text += piece;
      if (text !== '24 80\r\n') continue;
      await terminal.resize(40, 90);
      await terminal.write('\n');
    }
    expect(text).toBe('24 80\r\n\r\n40 90\r\n');
  });

  test('stops at the timeout and on abort', async () => {
    expect(await host().run(sh('echo early; sleep 600'), { timeoutMs: 400 })).toMatchObject({
      timedOut: true,
      text: { stdout: 'early\n' },
    });
    const signal = AbortSignal.timeout(50);
    await expect(host().run(['sleep', '600'], { signal })).rejects.toMatchObject({ kind: 'aborted' });
  });

  test('spawns a process that is iterated, waited for and killed', async () => {
    const echo = await host().spawn(['cat'], { pipeStdin: true });
    await echo.write('hello');
    await echo.closeStdin();
    expect(await textOf(echo)).toBe('hello');
    expect(await echo.wait()).toMatchObject({ exitCode: 0, closed: true });
    const sleep = await host().spawn(['sleep', '600']);
    await sleep.kill();
    expect(await sleep.wait()).toMatchObject({ exitCode: 137 });
    const polite = await host().spawn(sh('trap "exit 5" TERM; echo ready; while :; do sleep 0.01; done'));
    for await (const text of polite) if (text.includes('ready')) break;
    await polite.kill('SIGTERM');
    expect(await polite.wait()).toMatchObject({ exitCode: 5 });
  });

  test('waits for the callbacks of a spawned process, and rejects when one throws', async () => {
    const seen: string[] = [];
    const one = await host().spawn(sh('printf a; printf b >&2'), {
      onOutput: (text) => void seen.push(text),
    });
    await one.wait();
    expect(seen.sort()).toEqual(['a', 'b']);
    const other = await host().spawn(['cat'], {
      pipeStdin: true,
      onStdout: () => {
        throw new Error('refused');
      },
    });
    const waiting = other.wait();
    await other.write('x');
    await expect(waiting).rejects.toThrow('refused');
    await waitFor('the end', () => other.state.closed);
  });

  test('ends a spawned process at its timeout, on abort and when it is disposed of', async () => {
    const timed = await host().spawn(['sleep', '600'], { timeoutMs: 1_500 });
    expect(await timed.wait()).toMatchObject({ exitCode: 137 });
    const controller = new AbortController();
    const aborted = await host().spawn(['sleep', '600'], { signal: controller.signal });
    controller.abort();
    expect(await aborted.wait()).toMatchObject({ exitCode: 137 });
    const disposed = await host().spawn(['sleep', '600']);
    await disposed[Symbol.asyncDispose]();
    expect(await disposed.wait()).toMatchObject({ exitCode: 137 });
  });

  test('passes limits on', async () => {
    const { exitCode } = await host().run(['sleep', '600'], { limits: { wallMs: 50 } });
    expect(exitCode).toBe(137);
  });
});

test('a detached process has a name and a reference, and survives its scope and its client', async () => {
  const first = await connect(server.url);
  const job = await first.spawn('echo begun; read x', { name: 'job', detached: true, tty: true });
  expect(job).toMatchObject({ name: 'job', ref: expect.any(String) });
  await job[Symbol.asyncDispose]();
  await first.close();
  const second = await connect(server.url);
  const found = await second.attach('job', { role: 'driver', takeOver: true });
  expect(found.state.exited).toBe(false);
  await found.kill();
  expect(await found.wait()).toMatchObject({ exitCode: 137 });
  await second.close();
});

async function textOf(process: ExecProcess): Promise<string> {
  let all = '';
  for await (const text of process) all += text;
  return all;
}

test('connects by a text, a URL and options, and closes when it is disposed of', async () => {
  const clients: ExecServerClient[] = [];
  for (const target of [server.url, new URL(server.url), { url: server.url }]) {
    clients.push(await connect(target));
  }
  for (const client of clients) {
    expect(client.state).toBe('connected');
    await client[Symbol.asyncDispose]();
    expect(client.state).toBe('closed');
  }
});
