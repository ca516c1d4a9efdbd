import { describe, expect, test } from 'vitest';
import { MAX_DELTAS } from '../../../src/agent/limits.ts';
import { AgentFixture } from './agent-fixture.ts';
import { settled } from './manual-clock.ts';

describe('the events of a program', () => {
  test('that ends during its call are all emitted before the call returns', async () => {
    const fixture = new AgentFixture();
    const done = fixture.agent.execCommand({ cmd: 'work' }, { callId: 'c1' }).then(() => fixture.story);
    await settled();
    fixture.backend.last.output('out\n').output('err\n', 'stderr').end(7);
    expect(await done).toEqual(['begin c1 1000', 'delta "out\\n"', 'delta "err\\n"', 'end 7 failed']);
  });

  test('that keeps running after its call', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running({ tty: true });
    process.output('name? ', 'pty');
    await fixture.write({ session_id: id, chars: 'bob\n' });
    await fixture.clock.advance(350);
    await fixture.write({ session_id: id });
    await fixture.clock.advance(5_000);
    await fixture.write({ session_id: id });
    process.output('bye', 'pty').end(0);
    await settled();
    expect(fixture.story).toEqual([
      'begin call-1 1000',
      'delta "name? "',
      'typed "bob\\n"',
      'typed ""',
      'delta "bye"',
      'end 0 completed',
    ]);
  });

  test('that ends between calls', async () => {
    const fixture = new AgentFixture();
    const { process } = await fixture.running();
    process.output('unseen').end(0);
    await settled();
    expect(fixture.story).toEqual(['begin call-1 1000', 'delta "unseen"', 'end 0 completed']);
  });

  test('that ends on its last input report the input before the end', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running({ tty: true });
    const call = await fixture.write({ session_id: id, chars: 'exit\n' });
    process.end(0);
    await settled();
    expect(call.output).toMatchObject({ exitCode: 0 });
    expect(fixture.story.slice(1)).toEqual(['typed "exit\\n"', 'end 0 completed']);
  });

  test('that is lost end with the reason', async () => {
    const fixture = new AgentFixture();
    const { process } = await fixture.running();
    process.output('half').exit(3).fail('the connection is gone');
    await settled();
    expect(fixture.events.at(-1)).toMatchObject({
      type: 'end',
      exitCode: -1,
      status: 'failed',
      stdout: 'half',
      stderr: 'the connection is gone',
      aggregatedOutput: 'half\nthe connection is gone',
    });
  });
});

describe('event contents', () => {
  test('begin and end', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec({ cmd: 'ls', workdir: 'sub' }, { callId: 'c9', turnId: 't1' });
    await fixture.clock.advance(40);
    fixture.backend.last.output('a\n').end(0);
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
    expect(fixture.events).toEqual([
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
    expect(JSON.parse(JSON.stringify(fixture.events))).toEqual(fixture.events);
  });

  test("the formatted output is truncated to the model's limit", async () => {
    const fixture = new AgentFixture({ truncation: { mode: 'tokens', limit: 5 } });
    await fixture.exec();
    fixture.backend.last.output('0123456789'.repeat(10)).end(0);
    await settled();
    expect(fixture.events.at(-1)).toMatchObject({
      formattedOutput: '0123456789…20 tokens truncated…0123456789',
    });
  });

  test('output events have a maximum size and never split a character', async () => {
    const fixture = new AgentFixture();
    await fixture.exec();
    const bytes = Buffer.from(`${'x'.repeat(8_190)}€${'y'.repeat(8_192)}😀`);
    fixture.backend.last.output(bytes.subarray(0, -2)).output(bytes.subarray(-2)).end(0);
    await settled();
    const deltas = fixture.events.filter((event) => event.type === 'outputDelta');
    const pieces = deltas.map(({ chunk }) => Buffer.from(chunk, 'base64'));
    expect(pieces.map(({ length }) => length)).toEqual([8_190, 8_192, 3, 4]);
    expect(Buffer.concat(pieces)).toEqual(bytes);
  });

  test('limits the number of output events per call', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    for (let count = 0; count < MAX_DELTAS + 500; count++) fixture.backend.last.output('x');
    fixture.backend.last.end(0);
    while (call.output === null) await settled();
    expect(fixture.events.filter(({ type }) => type === 'outputDelta')).toHaveLength(MAX_DELTAS);
    expect(fixture.events.at(-1)).toMatchObject({ aggregatedOutput: 'x'.repeat(MAX_DELTAS + 500) });
  });
});

test('ignores exceptions of the listener', async () => {
  const fixture = new AgentFixture({
    onEvent: () => {
      throw new Error('not my day');
    },
  });
  const call = await fixture.exec();
  fixture.backend.last.output('x').end(0);
  await settled();
  expect(call).toMatchObject({ text: 'x', output: { exitCode: 0 } });
});
