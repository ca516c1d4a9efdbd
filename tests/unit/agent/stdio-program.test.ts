import { describe, expect, test } from 'vitest';
import { StdioProgram } from '../../../src/agent/index.ts';
import { MAX_LINE_BYTES } from '../../../src/agent/limits.ts';
import { ClientError } from '../../../src/client/errors.ts';
import { ScriptedBackend, type ScriptedProcess } from './scripted-backend.ts';

async function launched(): Promise<{ program: StdioProgram; process: ScriptedProcess; errors: string[] }> {
  const backend = new ScriptedBackend();
  const errors: string[] = [];
  const program = await StdioProgram.launch(backend, {
    argv: ['server', '--stdio'],
    cwd: 'file:///ws',
    env: { A: 'b' },
    onStderr: (text) => errors.push(text),
  });
  return { program, process: backend.last, errors };
}

async function linesOf(program: StdioProgram): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of program.lines()) lines.push(line);
  return lines;
}

describe('a program on stdio', () => {
  test('starts with an open stdin and a minimal environment', async () => {
    const { process } = await launched();
    expect(process.params).toEqual({
      processId: expect.stringMatching(/^stdio-[0-9a-f-]{36}$/),
      argv: ['server', '--stdio'],
      cwd: 'file:///ws',
      env: { A: 'b' },
      envPolicy: { inherit: 'core', ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] },
      tty: false,
      pipeStdin: true,
    });
  });

  test('receives lines on stdin', async () => {
    const { program, process } = await launched();
    await program.send('{"id":1}');
    expect(process.calls).toEqual(['write "{\\"id\\":1}\\n"']);
    await expect(program.send('a\nb')).rejects.toThrow(TypeError);
    process.writeFailure = new ClientError('stdinClosed', 'its stdin is closed');
    const error = { name: 'StdioProgramError', message: 'its stdin is closed' };
    await expect(program.send('x')).rejects.toMatchObject(error);
  });

  test('yields lines for every chunking of the output', async () => {
    const { program, process, errors } = await launched();
    const euro = Buffer.from('€');
    process.output('on').output('e\r\ntwo\n\n').output('log ', 'stderr').output(euro.subarray(0, 1));
    process
      .output(euro.subarray(0, 2), 'stderr')
      .output(Buffer.concat([euro.subarray(1), Buffer.from('\n')]));
    process.output(euro.subarray(2), 'stderr').output('rest').end(0);
    expect(await linesOf(program)).toEqual(['one', 'two', '€', 'rest']);
    expect(errors.join('')).toBe('log €');
  });

  test('that is lost ends the iteration with an error', async () => {
    const one = await launched();
    one.process.output('x\n').fail('gone');
    await expect(linesOf(one.program)).rejects.toThrow('gone');
    const other = await launched();
    other.process.output('x\n').lose(5);
    await expect(linesOf(other.program)).rejects.toThrow('a part of the output was lost');
  });

  test('may write long lines up to the limit', async () => {
    const { program, process } = await launched();
    const part = Buffer.alloc(MAX_LINE_BYTES / 4, 'x');
    for (let count = 0; count < 4; count++) process.output(part);
    process.output('\n');
    for (let count = 0; count < 5; count++) process.output(part);
    const lines = program.lines();
    expect((await lines.next()).value).toHaveLength(MAX_LINE_BYTES);
    await expect(lines.next()).rejects.toThrow(`a line is longer than ${MAX_LINE_BYTES} bytes`);
  });
});
