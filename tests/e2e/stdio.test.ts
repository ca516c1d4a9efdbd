import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { processesWith } from '../support/machine.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const running: ChildProcess[] = [];
afterEach(() => {
  for (const child of running.splice(0)) if (child.exitCode === null) child.kill('SIGKILL');
});

/** Runs a stdio server, writes `input`, closes its stdin and returns its output. */
async function converse(input: string | Buffer, flags: readonly string[] = ['--listen', 'stdio']) {
  const child = spawn(process.execPath, [BIN, ...flags], { stdio: ['pipe', 'pipe', 'pipe'] });
  running.push(child);
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  const text = Buffer.concat(out).toString();
  const messages = text.split('\n').filter(Boolean);
  return {
    code,
    text,
    messages: messages.map((line) => JSON.parse(line)),
    stderr: Buffer.concat(err).toString(),
  };
}

const HELLO = '{"id":1,"method":"initialize","params":{}}\n{"method":"initialized"}\n';

describe('stdio', () => {
  test.each([
    ['--listen', 'stdio'],
    ['--listen', 'stdio://'],
    ['--transport', 'stdio'],
  ])('serves with %s %s; at the end of input it answers what it received and exits 0', async (...flags) => {
    const { code, messages, text, stderr } = await converse(
      `${HELLO}{"id":2,"method":"environment/status"}\n`,
      flags,
    );
    expect(code).toBe(0);
    expect(messages.map((message) => message.id)).toEqual([1, 2]);
    expect(messages[1].result).toEqual({ status: 'ready' });
    expect(text.endsWith('\n')).toBe(true);
    expect(stderr).toBe('');
  });

  test.each([
    ['before initialize', '', 65_536],
    ['after it', HELLO, 67_108_864],
  ])('says on stderr why it ends: a line that is too long %s', async (_, before, bytes) => {
    const { stderr } = await converse(`${before}${'x'.repeat(bytes + 1)}\n`);
    expect(stderr).toContain('the input was refused');
    expect(stderr).toContain(`a line is longer than ${bytes} bytes`);
  });

  test('writes 10,000 log records to stderr and only messages to stdout', async () => {
    const count = 10_000;
    const flags = ['--listen', 'stdio', '--log-level', 'debug', '--lenient-notifications'];
    const input = `${HELLO}${'{"method":"foo/bar"}\n'.repeat(count)}{"id":2,"method":"environment/status"}\n`;
    const { messages, stderr, code } = await converse(input, flags);
    expect(code).toBe(0);
    const records = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(records.filter(({ message }) => message === 'protocol violation')).toHaveLength(count);
    expect(messages).toHaveLength(count + 2);
    expect(messages.filter(({ id, error }) => id === -1 && error.code === -32600)).toHaveLength(count);
    expect(messages.filter(({ result }) => result !== undefined).map(({ id }) => id)).toEqual([1, 2]);
  });

  test('keeps its log for a reader of stderr that starts after the last answer', async () => {
    const count = 2_000;
    const child = spawn(process.execPath, [
      BIN,
      '--listen',
      'stdio',
      '--log-level',
      'debug',
      '--lenient-notifications',
    ]);
    running.push(child);
    child.stdin.end(
      `${HELLO}${'{"method":"foo/bar"}\n'.repeat(count)}{"id":2,"method":"environment/status"}\n`,
    );
    let answers = '';
    for await (const chunk of child.stdout) {
      answers += chunk;
      if (answers.includes('"id":2')) break;
    }
    const err: Buffer[] = [];
    child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
    expect(await once(child, 'close')).toEqual([0, null]);
    const lines = Buffer.concat(err).toString().split('\n');
    expect(lines.filter((line) => line.includes('protocol violation'))).toHaveLength(count);
  });

  test('accepts CRLF, blank lines and a last line without a newline', async () => {
    const input = `\r\n  \n${HELLO.replaceAll('\n', '\r\n')}\n{"id":"x","method":"environment/status"}`;
    const { messages } = await converse(input);
    expect(messages.map((message) => message.id)).toEqual([1, 'x']);
  });

  test('answers garbage with id -1 and continues', async () => {
    const { messages, code } = await converse(
      `not JSON\n[]\n${HELLO}{"id":2,"method":"environment/status"}\n`,
    );
    expect(code).toBe(0);
    expect(messages.map((message) => [message.id, message.error?.code])).toEqual([
      [-1, -32600],
      [-1, -32600],
      [1, undefined],
      [2, undefined],
    ]);
  });

  test('ends after too many lines of garbage in a row, and reports it', async () => {
    const { messages, stderr } = await converse(`${HELLO}${'{\n'.repeat(2_000)}`);
    expect(messages.filter(({ id }) => id === -1)).toHaveLength(1_024);
    expect(stderr).toContain('the input was refused');
    expect(stderr).toContain('1024 malformed messages in a row');
  });

  test('ends at a line that is not UTF-8, and at an unexpected notification', async () => {
    const invalid = Buffer.concat([
      Buffer.from(HELLO),
      Buffer.from([0xff, 0xfe, 0x0a]),
      Buffer.from('{"id":2}\n'),
    ]);
    expect((await converse(invalid)).messages.map((message) => message.id)).toEqual([1]);
    const { messages, code } = await converse(`${HELLO}{"method":"foo/bar"}\n`);
    expect(messages.map((message) => message.id)).toEqual([1, -1]);
    expect(code).toBe(0);
  });

  test('the end of input ends every child and answers pending waits', async () => {
    const mark = `${200_000 + (process.pid % 10_000)}.5`;
    const start = JSON.stringify({
      id: 2,
      method: 'process/start',
      params: shell('p', `setsid sleep ${mark} & exec sleep ${mark}`),
    });
    const poll = JSON.stringify({
      id: 3,
      method: 'process/read',
      params: { processId: 'p', waitMs: 600_000 },
    });
    const { code, messages } = await converse(`${HELLO}${start}\n${poll}\n`);
    expect(code).toBe(0);
    expect(messages.find((message) => message.id === 2).result.processId).toBe('p');
    expect(messages.find((message) => message.id === 3).result).toMatchObject({
      exited: false,
      closed: false,
    });
    await waitFor('the children to be gone', () => processesWith(`sleep ${mark}`).length === 0);
  });

  test('delivers the complete output of a program', async () => {
    const child = spawn(process.execPath, [BIN, '--listen', 'stdio'], { stdio: ['pipe', 'pipe', 'inherit'] });
    running.push(child);
    let text = '';
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk;
    });
    child.stdin.write(HELLO);
    child.stdin.write(
      `${JSON.stringify({ id: 2, method: 'process/start', params: shell('p', 'head -c 3000000 /dev/zero') })}\n`,
    );
    await waitFor('the end of the program', () => text.includes('"process/closed"'));
    child.stdin.end();
    await once(child, 'close');
    const output = text.split('\n').filter((line) => line.includes('"process/output"'));
    const bytes = output.map((line) => Buffer.from(JSON.parse(line).params.chunk, 'base64').length);
    expect(bytes.reduce((sum, count) => sum + count, 0)).toBe(3_000_000);
    expect(child.exitCode).toBe(0);
  });
});
