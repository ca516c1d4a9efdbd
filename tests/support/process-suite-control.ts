import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { StartParams } from '../../src/client/backend.ts';
import { closed, collect, collectText, outputOf } from './process-recorder.ts';
import type { ProcessFixture } from './process-suite.ts';
import { waitFor } from './wait-for.ts';

/** Input, signals and start of a process. */
export function controlTests(fixture: ProcessFixture): void {
  const { extensions, start } = fixture;

  describe('input', () => {
    test('reaches a terminal', async () => {
      const process = await start('stty size; read name; echo "hello $name"', { tty: true });
      const screen = collectText(process);
      await waitFor('the size', () => screen.text.includes('24 80'));
      await process.write('bob\n');
      await closed(process);
      expect(screen.text).toBe('24 80\r\nbob\r\nhello bob\r\n');
      expect(screen.streams).toEqual(new Set(['pty']));
    });

    test('reaches a pipe, in order and unchanged', async () => {
      const process = await start('head -c 300003 | sha256sum', { pipeStdin: true });
      const input = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7 + (index >> 8)) % 256);
      const writes = [process.write(input), process.write('é'), process.write(Uint8Array.of(255))];
      await Promise.all(writes);
      const whole = Buffer.concat([input, Buffer.from('é'), Buffer.of(255)]);
      const expected = execFileSync('sha256sum', { input: whole }).toString();
      expect(outputOf(await collect(process))).toBe(expected);
    });

    test('may be modified by its owner after the write', async () => {
      const process = await start('head -c 4', { pipeStdin: true });
      const input = Buffer.from('good');
      const written = process.write(input);
      input.fill('x');
      await written;
      expect(outputOf(await collect(process))).toBe('good');
    });

    test('is at end of file from the start when none was requested', async () => {
      const process = await start('cat; echo end; read go');
      await expect(process.write('x')).rejects.toMatchObject({
        kind: 'invalidInput',
        hint: expect.stringContaining('pipeStdin'),
      });
      expect(outputOf(await collect(process))).toBe('end\n');
    });

    test('ends after everything that was written', async () => {
      const process = await start('cat; echo end', { pipeStdin: true });
      const ending = async () => {
        await process.write('in\n');
        return process.closeStdin();
      };
      if (!extensions) {
        await expect(ending()).rejects.toMatchObject({ kind: 'unsupported' });
        await process.terminate();
        return;
      }
      expect(await ending()).toBe(true);
      expect(outputOf(await collect(process))).toBe('in\nend\n');
      expect(await process.closeStdin()).toBe(false);
    });
  });

  describe('control', () => {
    test('an interrupt runs the trap', async () => {
      const process = await start('trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.1; done');
      const screen = collectText(process);
      await waitFor('the trap', () => screen.text.includes('ready'));
      await process.signal('interrupt');
      await closed(process);
      expect(screen.text).toBe('ready\ncaught\n');
      expect(process.state.exitCode).toBe(7);
      await process.signal('interrupt');
    });

    test('sends any signal by name', async () => {
      const process = await start('read go', { pipeStdin: true });
      if (extensions) {
        await process.signal('SIGTERM');
        await closed(process);
        expect(process.state.exitCode).toBe(128 + 15);
        const unknown = process.signal('SIGNONE');
        await expect(unknown).rejects.toMatchObject({ kind: 'invalidInput', code: -32602 });
      } else {
        await expect(process.signal('SIGTERM')).rejects.toMatchObject({ kind: 'unsupported' });
        await process.terminate();
      }
    });

    test('terminates a process once', async () => {
      const process = await start('read go', { pipeStdin: true });
      expect(await process.terminate()).toBe(true);
      await closed(process);
      expect(process.state.exitCode).toBe(137);
      expect(await process.terminate()).toBe(false);
    });

    test('terminates a process gracefully', async () => {
      const process = await start('trap "exit 9" TERM; echo ready; while :; do sleep 0.1; done');
      await waitFor('the trap', () => process.revision === 1);
      const ending = process.terminate({ type: 'graceful', timeoutMs: 60_000 });
      if (extensions) {
        expect(await ending).toBe(true);
        await closed(process);
        expect(process.state.exitCode).toBe(9);
      } else {
        await expect(ending).rejects.toMatchObject({ kind: 'unsupported' });
        await process.terminate();
      }
    });

    test('resizes a terminal', async () => {
      const size = { rows: 10, cols: 20 };
      const process = await start('stty size; read go; stty size', { tty: true, size });
      await waitFor('the size', () => process.revision >= 1);
      if (!extensions) {
        await expect(process.resize(30, 40)).rejects.toMatchObject({ kind: 'unsupported' });
        await process.terminate();
        return;
      }
      await process.resize(30, 40);
      await process.write('\n');
      expect(outputOf(await collect(process))).toBe('10 20\r\n\r\n30 40\r\n');
    });

    test('refuses to resize a process without a terminal', async () => {
      const process = await start('read go', { pipeStdin: true });
      const resized = process.resize(30, 40);
      const expected = extensions ? { kind: 'invalidInput', code: -32600 } : { kind: 'unsupported' };
      await expect(resized).rejects.toMatchObject(expected);
      await process.terminate();
      await closed(process);
    });
  });

  describe('start', () => {
    test('passes arguments, directory and variables to the program', async () => {
      const process = await start('', {
        argv: ['/bin/sh', '-c', 'echo "$0|$1|$A|$CODEX_TOOL_CALL_ID"; pwd; env | wc -l', 'zero', 'one two'],
        env: { A: 'ä' },
        metadata: { toolCallId: 'call' },
      });
      const [first, directory] = outputOf(await collect(process)).split('\n');
      expect(first).toBe('zero|one two|ä|call');
      expect(directory).toBe(fixture.folder);
    });

    test('can inherit variables of the executor', async () => {
      const process = await start('echo "$HOME|$SECRET_OF_MINE"', {
        env: { SECRET_OF_MINE: 'laid over' },
        envPolicy: {
          inherit: 'core',
          ignoreDefaultExcludes: false,
          exclude: [],
          set: { HOME: '/elsewhere' },
          includeOnly: [],
        },
      });
      expect(outputOf(await collect(process))).toBe('/elsewhere|laid over\n');
    });

    // The reference does not say what is missing.
    const missingDirectory = extensions ? 'directoryNotFound' : 'programNotFound';
    test.each<[string, Partial<StartParams>, string, number]>([
      ['a program that does not exist', { argv: ['/no/such/program'] }, 'programNotFound', -32603],
      ['no program', { argv: [] }, 'invalidInput', -32602],
      ['a directory that does not exist', { cwd: 'file:///no/such/directory' }, missingDirectory, -32603],
      ['a directory that is no URI', { cwd: '/tmp' }, 'invalidInput', -32602],
      ['a directory of another system', { cwd: 'file:///C:/x' }, 'invalidInput', -32602],
      ['a thread id that is none', { metadata: { threadId: 'x' } }, 'invalidInput', -32602],
    ])('refuses %s', async (_name, params, kind, code) => {
      await expect(start('', params)).rejects.toMatchObject({ name: 'ClientError', kind, code });
    });

    test('refuses an id in use, without side effects', async () => {
      const processId = randomUUID();
      const process = await start('read go; echo alive', { processId, pipeStdin: true });
      await closed(await start('exit 0'));
      const second = start('echo second', { processId });
      await expect(second).rejects.toMatchObject({ name: 'ClientError' });
      await process.write('\n');
      expect(outputOf(await collect(process))).toBe('alive\n');
    });

    test('refuses the id of a process that has just ended', async () => {
      const processId = randomUUID();
      await closed(await start('exit 0', { processId }));
      const second = start('exit 0', { processId });
      await expect(second).rejects.toMatchObject({ kind: 'conflict', code: -32600 });
    });

    test('leaves the id free when it is refused', async () => {
      const processId = randomUUID();
      await expect(start('', { processId, argv: ['/no/such/program'] })).rejects.toThrow();
      expect(outputOf(await collect(await start('echo second', { processId })))).toBe('second\n');
    });

    test('is not sent when it was aborted before', async () => {
      const mark = join(fixture.folder, randomUUID());
      const given = start(`touch ${mark}`, {});
      await closed(await given);
      const signal = AbortSignal.abort();
      const attempt = start(`touch ${mark}-aborted`, {}, { signal });
      await expect(attempt).rejects.toMatchObject({ name: 'ClientError', kind: 'aborted' });
      expect(execFileSync('ls', [fixture.folder]).toString()).not.toContain('aborted');
    });
  });
}
