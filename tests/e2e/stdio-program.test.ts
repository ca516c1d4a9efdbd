import { tmpdir } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { StdioProgram } from '../../src/agent/index.ts';
import type { ExecBackend } from '../../src/client/backend.ts';
import { LocalEnvironment } from '../../src/environment/local-environment.ts';
import { overWebSocket } from '../support/connected-clients.ts';

const SERVER = fileURLToPath(new URL('../fixtures/line-server.mjs', import.meta.url));

const BACKENDS: Readonly<Record<string, () => Promise<{ backend: ExecBackend; close(): Promise<void> }>>> = {
  'this machine': async () => {
    const environment = new LocalEnvironment();
    return { backend: environment.backend, close: () => environment.dispose() };
  },
  'a websocket': async () => {
    const { client, close } = await overWebSocket();
    return { backend: client.backend, close };
  },
};

async function launched(open: (typeof BACKENDS)[string], argv = [process.execPath, SERVER]) {
  const { backend, close } = await open();
  onTestFinished(close);
  const errors: string[] = [];
  const program = await StdioProgram.launch(backend, {
    argv,
    cwd: pathToFileURL(tmpdir()).href,
    onStderr: (text) => errors.push(text),
  });
  return { program, errors, lines: program.lines() };
}

describe.each(Object.entries(BACKENDS))('a program on stdio on %s', (_, open) => {
  test('answers, and ends with its input', async () => {
    const { program, errors, lines } = await launched(open);
    await program.send('{"id":1,"method":"tools/list"}');
    const answer = { id: 1, result: { tools: [{ name: 'écho' }], folder: tmpdir() } };
    expect(JSON.parse((await lines.next()).value as string)).toEqual(answer);
    await program.send('{"id":2,"method":"ping"}');
    expect((await lines.next()).value).toBe('{"id":2,"result":{}}');
    await program.close();
    expect(await lines.next()).toEqual({ done: true, value: undefined });
    expect(errors.join('')).toBe('listening\nbye\n');
    expect(program.process.state).toMatchObject({ exitCode: 0, closed: true });
  });

  test('that exits by itself ends the lines', async () => {
    const { program, lines } = await launched(open);
    await program.send('{"method":"crash"}');
    expect(await lines.next()).toEqual({ done: true, value: undefined });
    expect(program.process.state.exitCode).toBe(3);
    await program.close();
  });

  test('that ignores the end of its input is terminated', async () => {
    const { program, lines } = await launched(open, ['/bin/sh', '-c', 'echo up; exec sleep 1000']);
    expect((await lines.next()).value).toBe('up');
    await program.close();
    expect(await lines.next()).toEqual({ done: true, value: undefined });
    expect(program.process.state.exitCode).toBe(143);
  });
});
