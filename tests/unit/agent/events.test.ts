import { describe, expect, test } from 'vitest';
import { MAX_DELTAS } from '../../../src/agent/limits.ts';
import { settled } from './manual-clock.ts';
import { Stage } from './stage.ts';

describe('the story of a program', () => {
  test('that ends within its call: all of it has been told when the call returns', async () => {
    const stage = new Stage();
    const done = stage.agent.execCommand({ cmd: 'work' }, { callId: 'c1' }).then(() => stage.story);
    await settled();
    stage.backend.last.output('out\n').output('err\n', 'stderr').end(7);
    expect(await done).toEqual(['begin c1 1000', 'delta "out\\n"', 'delta "err\\n"', 'end 7 failed']);
  });

  test('that runs on', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running({ tty: true });
    process.output('name? ', 'pty');
    await stage.write({ session_id: id, chars: 'bob\n' });
    await stage.clock.advance(350);
    await stage.write({ session_id: id });
    await stage.clock.advance(5_000);
    await stage.write({ session_id: id });
    process.output('bye', 'pty').end(0);
    await settled();
    expect(stage.story).toEqual([
      'begin call-1 1000',
      'delta "name? "',
      'typed "bob\\n"',
      'typed ""',
      'delta "bye"',
      'end 0 completed',
    ]);
  });

  test('that ends when nobody looks', async () => {
    const stage = new Stage();
    const { process } = await stage.running();
    process.output('unseen').end(0);
    await settled();
    expect(stage.story).toEqual(['begin call-1 1000', 'delta "unseen"', 'end 0 completed']);
  });

  test('whose last input ends it: the input is told before the end', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running({ tty: true });
    const call = await stage.write({ session_id: id, chars: 'exit\n' });
    process.end(0);
    await settled();
    expect(call.output).toMatchObject({ exitCode: 0 });
    expect(stage.story.slice(1)).toEqual(['typed "exit\\n"', 'end 0 completed']);
  });

  test('that is lost', async () => {
    const stage = new Stage();
    const { process } = await stage.running();
    process.output('half').exit(3).fail('the connection is gone');
    await settled();
    expect(stage.events.at(-1)).toMatchObject({
      type: 'end',
      exitCode: -1,
      status: 'failed',
      stdout: 'half',
      stderr: 'the connection is gone',
      aggregatedOutput: 'half\nthe connection is gone',
    });
  });
});

describe('what events carry', () => {
  test('begin and end', async () => {
    const stage = new Stage();
    const call = await stage.exec({ cmd: 'ls', workdir: 'sub' }, { callId: 'c9', turnId: 't1' });
    await stage.clock.advance(40);
    stage.backend.last.output('a\n').end(0);
    await settled();
    expect(call.output).not.toBeNull();
    const facts = {
      callId: 'c9',
      processId: '1000',
      turnId: 't1',
      command: ['/bin/bash', '-lc', 'ls'],
      cwd: 'file:///ws/sub',
      parsed: [{ type: 'unknown', cmd: 'ls' }],
      source: 'unified_exec_startup',
    };
    expect(stage.events).toEqual([
      { type: 'begin', ...facts, startedAtMs: 1_700_000_001_000 },
      { type: 'outputDelta', callId: 'c9', stream: 'stdout', chunk: 'YQo=' },
      {
        type: 'end',
        ...facts,
        completedAtMs: 1_700_000_001_040,
        stdout: 'a\n',
        stderr: '',
        aggregatedOutput: 'a\n',
        formattedOutput: 'a\n',
        exitCode: 0,
        durationMs: 40,
        status: 'completed',
      },
    ]);
    expect(JSON.parse(JSON.stringify(stage.events))).toEqual(stage.events);
  });

  test('the formatted output is as short as the model wants it', async () => {
    const stage = new Stage({ truncation: { mode: 'tokens', limit: 5 } });
    await stage.exec();
    stage.backend.last.output('0123456789'.repeat(10)).end(0);
    await settled();
    expect(stage.events.at(-1)).toMatchObject({
      formattedOutput: '0123456789…20 tokens truncated…0123456789',
    });
  });

  test('output comes in bounded pieces that end between characters', async () => {
    const stage = new Stage();
    await stage.exec();
    const bytes = Buffer.from(`${'x'.repeat(8_190)}€${'y'.repeat(8_192)}😀`);
    stage.backend.last.output(bytes.subarray(0, -2)).output(bytes.subarray(-2)).end(0);
    await settled();
    const deltas = stage.events.filter((event) => event.type === 'outputDelta');
    const pieces = deltas.map(({ chunk }) => Buffer.from(chunk, 'base64'));
    expect(pieces.map(({ length }) => length)).toEqual([8_190, 8_192, 3, 4]);
    expect(Buffer.concat(pieces)).toEqual(bytes);
  });

  test('a flood of output is not a flood of events', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    for (let count = 0; count < MAX_DELTAS + 500; count++) stage.backend.last.output('x');
    stage.backend.last.end(0);
    while (call.output === null) await settled();
    expect(stage.events.filter(({ type }) => type === 'outputDelta')).toHaveLength(MAX_DELTAS);
    expect(stage.events.at(-1)).toMatchObject({ aggregatedOutput: 'x'.repeat(MAX_DELTAS + 500) });
  });
});

test('a listener that fails ends nothing', async () => {
  const stage = new Stage({
    onEvent: () => {
      throw new Error('not my day');
    },
  });
  const call = await stage.exec();
  stage.backend.last.output('x').end(0);
  await settled();
  expect(call).toMatchObject({ text: 'x', output: { exitCode: 0 } });
});
