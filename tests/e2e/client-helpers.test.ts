import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  communicate,
  ExecServerClient,
  type LostEvent,
  outputOf,
  outputTextOf,
  type ProcessEvent,
  run,
  wait,
} from '../../src/client/index.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { isAlive } from '../support/machine.ts';
import { shell, terminal } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

let server: TestServer;
let client: ExecServerClient;
beforeAll(async () => {
  server = await startServer();
  client = await ExecServerClient.connect({ url: server.url });
});
afterAll(async () => {
  await client.close();
  await server.close();
});

const sh = (script: string) => ['/bin/sh', '-c', script];
let count = 0;
const id = () => `h${++count}`;

describe('run', () => {
  test('returns the result of a program', async () => {
    const outcome = await run(client.backend, sh('printf out; printf err >&2; exit 3'));
    expect(outcome).toMatchObject({
      exitCode: 3,
      signal: null,
      text: { stdout: 'out', stderr: 'err', terminal: '' },
      omittedBytes: 0,
      lost: [],
      timedOut: false,
      sandboxDenied: false,
    });
    expect(outcome.stdout).toEqual(new Uint8Array(Buffer.from('out')));
    expect(outcome.wallTimeMs).toBeGreaterThan(0);
  });

  test('runs with the environment of the server, added variables and the requested directory', async () => {
    const { text } = await run(client.backend, sh('echo "$PATH|$MINE|$PWD"'), {
      env: { MINE: 'yes' },
      cwd: 'file:///usr',
    });
    expect(text.stdout).toBe(`${process.env.PATH}|yes|/usr\n`);
    const { text: here } = await run(client.backend, ['pwd']);
    expect(here.stdout.trim()).toBe(process.cwd());
  });

  test('accepts start params', async () => {
    const { text, exitCode, signal } = await run(
      client.backend,
      terminal(id(), 'test -t 1 && echo tty; kill -9 $$'),
    );
    expect(text).toEqual({ stdout: '', stderr: '', terminal: 'tty\r\n' });
    expect([exitCode, signal]).toEqual([137, 'SIGKILL']);
  });

  test('writes input of any size to a program that produces output meanwhile', async () => {
    const input = Buffer.alloc(3_000_000, 'abc\n');
    const { stdout, exitCode } = await run(client.backend, ['cat'], { input });
    expect(exitCode).toBe(0);
    expect(Buffer.from(stdout).equals(input)).toBe(true);
  });

  test('accepts a program that ignores its input', async () => {
    const { exitCode } = await run(client.backend, sh('exit 7'), { input: Buffer.alloc(2_000_000) });
    expect(exitCode).toBe(7);
    const partly = await run(client.backend, ['head', '-c', '3'], { input: `abc${'d'.repeat(1_000_000)}` });
    expect(partly.text.stdout).toBe('abc');
  });

  test('terminates a program at its timeout and keeps its output', async () => {
    const outcome = await run(client.backend, sh('echo early; sleep 600'), { timeoutMs: 300 });
    expect(outcome).toMatchObject({ timedOut: true, exitCode: 137, text: { stdout: 'early\n' } });
  });

  test('terminates a program on abort', async () => {
    const aborter = new AbortController();
    const params = shell(id(), 'echo $$; exec sleep 600');
    const running = run(client.backend, params, { signal: aborter.signal });
    const outcome = Promise.allSettled([running]);
    const pid = await waitFor('the pid', async () => {
      const page = await client.call('process/read', { processId: params.processId }).catch(() => null);
      return page?.chunks[0] === undefined ? 0 : Number(Buffer.from(page.chunks[0].chunk, 'base64'));
    });
    aborter.abort();
    expect(await outcome).toMatchObject([{ status: 'rejected', reason: { kind: 'aborted' } }]);
    await waitFor('the end', () => !isAlive(pid));
  });

  test('keeps the beginning of excessive output and counts the rest', async () => {
    const outcome = await run(client.backend, sh('printf 0123456789; printf abc >&2'), { maxOutputBytes: 4 });
    expect(outcome).toMatchObject({ text: { stdout: '0123', stderr: 'abc' }, omittedBytes: 6 });
  });

  test('rejects when the program does not exist', async () => {
    await expect(run(client.backend, ['/no/such/program'])).rejects.toMatchObject({
      kind: 'programNotFound',
    });
  });
});

describe('wait', () => {
  test('waits for the exit or for the end of all output', async () => {
    const process = await client.backend.start(shell(id(), 'sleep 600 & exit 2'));
    expect(await wait(process, { until: 'exited' })).toMatchObject({
      exited: true,
      exitCode: 2,
      closed: false,
    });
    await expect(wait(process, { timeoutMs: 20 })).rejects.toMatchObject({ kind: 'timeout' });
    await process.terminate();
    expect(await wait(process)).toMatchObject({ exited: true, exitCode: 2, closed: true });
  });

  test('has a timeout and a signal, and returns immediately when the process is closed', async () => {
    const process = await client.backend.start(shell(id(), 'sleep 600'));
    await expect(wait(process, { timeoutMs: 20 })).rejects.toMatchObject({ kind: 'timeout' });
    await expect(wait(process, { signal: AbortSignal.abort() })).rejects.toMatchObject({ kind: 'aborted' });
    await process.terminate();
    expect(await wait(process)).toMatchObject({ closed: true, exitCode: 137 });
    expect(await wait(process)).toMatchObject({ closed: true });
  });

  test('rejects when the process can no longer be followed', async () => {
    const other = await ExecServerClient.connect({ url: server.url });
    const process = await other.backend.start(shell(id(), 'sleep 600'));
    const waiting = wait(process);
    const outcome = Promise.allSettled([waiting]);
    await other.close();
    expect(await outcome).toMatchObject([{ status: 'rejected', reason: { kind: 'closed' } }]);
  });
});

describe('communicate', () => {
  test('writes, closes stdin and collects the output', async () => {
    const process = await client.backend.start({ ...shell(id(), 'cat; echo end'), pipeStdin: true });
    expect(await communicate(process, 'hello\n')).toMatchObject({
      exitCode: 0,
      text: { stdout: 'hello\nend\n' },
    });
  });

  test('leaves stdin open without input', async () => {
    const process = await client.backend.start({
      ...shell(id(), 'read line; echo "[$line]"'),
      pipeStdin: true,
    });
    const talking = communicate(process, undefined);
    await process.write('from elsewhere\n');
    expect((await talking).text.stdout).toBe('[from elsewhere]\n');
  });
});

describe('output', () => {
  test('comes as bytes and as text, without split characters', async () => {
    const script =
      "printf 'a\\303'; sleep 0.1; printf '\\251b'; printf '\\377' >&2; sleep 0.1; printf '\\342\\202'";
    const process = await client.backend.start(shell(id(), script));
    const bytes: number[] = [];
    for await (const piece of outputOf(process)) if (piece.stream === 'stdout') bytes.push(...piece.bytes);
    expect(Buffer.from(bytes)).toEqual(Buffer.from('61c3a962e282', 'hex'));
    const text = { stdout: '', stderr: '', pty: '' };
    for await (const piece of outputTextOf(process)) text[piece.stream] += piece.text;
    expect(text).toEqual({ stdout: 'aéb\ufffd', stderr: '\ufffd', pty: '' });
  });

  test('reports lost output, and throws when the process can no longer be followed', async () => {
    const lost: LostEvent = { type: 'lost', fromSeq: 2, toSeq: 5, bytes: null, streamBytes: null };
    const failure = new Error('gone');
    const events: unknown[] = [
      { type: 'output', seq: 1, stream: 'stdout', bytes: Buffer.from('61c3', 'hex') },
      lost,
      { type: 'output', seq: 6, stream: 'stdout', bytes: Buffer.from('a962', 'hex') },
      { type: 'failed', error: failure },
    ];
    const process = {
      events: async function* () {
        yield* events as ProcessEvent[];
      },
    } as unknown as Parameters<typeof outputOf>[0];
    const losses: LostEvent[] = [];
    const texts: string[] = [];
    const reading = (async () => {
      const options = { onLost: (loss: LostEvent) => losses.push(loss) };
      for await (const { text } of outputTextOf(process, options)) texts.push(text);
    })();
    await expect(reading).rejects.toBe(failure);
    expect(texts).toEqual(['a', '\ufffd', '\ufffdb']);
    expect(losses).toEqual([lost]);
    const pieces: number[] = [];
    const plain = (async () => {
      for await (const { bytes } of outputOf(process, { onLost: () => {} })) pieces.push(bytes.length);
    })();
    await expect(plain).rejects.toBe(failure);
    expect(pieces).toEqual([2, 2]);
  });

  test('of unknown streams that is lost is marked in every stream with output', async () => {
    const output = (seq: number, stream: string, text: string) => ({
      type: 'output',
      seq,
      stream,
      bytes: Buffer.from(text),
    });
    const lost = { type: 'lost', fromSeq: 2, toSeq: 5, bytes: null, streamBytes: null };
    const textsOf = async (...events: unknown[]) => {
      const named = { program: null, name: null, ref: null };
      const process = {
        ...named,
        events: () => events,
        state: { exitCode: 0, closed: true },
      } as unknown as Parameters<typeof outputOf>[0];
      const text = { stdout: '', stderr: '', pty: '' };
      for await (const piece of outputTextOf(process)) text[piece.stream] += piece.text;
      const { truncated, omittedBytes, ...result } = await communicate(process, undefined);
      expect([truncated, omittedBytes]).toEqual([true, 0]);
      expect(result.text).toEqual({ stdout: text.stdout, stderr: text.stderr, terminal: text.pty });
      return text;
    };
    const marker = '\n... some bytes lost ...\n';
    const closed = { type: 'closed', seq: 9 };
    expect(
      await textsOf(
        output(1, 'stdout', 'a'),
        lost,
        output(6, 'stderr', 'b'),
        output(7, 'stdout', 'c'),
        closed,
      ),
    ).toEqual({ stdout: `a${marker}c`, stderr: `${marker}b`, pty: '' });
    expect(await textsOf(lost, closed)).toEqual({ stdout: marker, stderr: '', pty: '' });
  });

  test('iteration can be left', async () => {
    const process = await client.backend.start(shell(id(), 'echo one; sleep 600'));
    for await (const { bytes } of outputOf(process)) {
      expect(Buffer.from(bytes).toString()).toBe('one\n');
      break;
    }
    await process.terminate();
  });

  test('of a fast writer reaches a reader that keeps up, complete and without extra reads', async () => {
    const process = await client.backend.start(shell(id(), 'seq 1 400000'));
    let bytes = 0;
    for await (const piece of outputOf(process, { onLost: () => expect.unreachable() }))
      bytes += piece.bytes.length;
    expect(bytes).toBe(2_688_895);
  });
});
