import { describe, expect, test } from 'vitest';
import type { Approval } from '../../../../src/agent/index.ts';
import { HELD_OUTPUT_BYTES } from '../../../../src/agent/limits.ts';
import { AgentFixture } from '../agent-fixture.ts';
import { settled } from '../manual-clock.ts';

const SANDBOX = { permissions: { type: 'managed' } };

describe('approval', () => {
  test('receives the resolved command', async () => {
    const asked: unknown[] = [];
    const fixture = new AgentFixture({
      policy: {
        approve: async (request) => {
          asked.push(request);
          return { approved: true };
        },
      },
    });
    await fixture.exec({
      cmd: 'rm x',
      sandbox_permissions: 'require_escalated',
      justification: 'May I?',
      prefix_rule: ['rm'],
    });
    expect(asked).toEqual([
      {
        callId: 'call-1',
        environmentId: 'main',
        cmd: 'rm x',
        command: ['/bin/bash', '-lc', 'rm x'],
        cwd: 'file:///ws',
        tty: false,
        sandboxPermissions: 'require_escalated',
        additionalPermissions: null,
        justification: 'May I?',
        prefixRule: ['rm'],
      },
    ]);
    expect(fixture.backend.started).toHaveLength(1);
  });

  test('when denied, starts no program', async () => {
    const fixture = new AgentFixture({
      policy: { approve: async () => ({ approved: false, reason: 'the user said no' }) },
    });
    const call = await fixture.exec();
    expect(call.error).toMatchObject({ kind: 'declined', message: 'the user said no' });
    expect(fixture.backend.started).toEqual([]);
    expect(fixture.events).toEqual([]);
  });

  test('may be decided without a promise', async () => {
    const approve = (() => ({ approved: true })) as unknown as () => Promise<Approval>;
    const fixture = new AgentFixture({ policy: { approve } });
    await fixture.exec();
    expect(fixture.backend.started).toHaveLength(1);
  });

  test('pauses the time limits of other calls', async () => {
    let answer = (_: Approval) => {};
    const fixture = new AgentFixture({
      policy: {
        approve: (request) =>
          request.cmd === 'ask'
            ? new Promise((resolve) => {
                answer = resolve;
              })
            : Promise.resolve({ approved: true }),
      },
    });
    const running = await fixture.exec({ yield_time_ms: 1_000 });
    const asking = await fixture.exec({ cmd: 'ask' });
    await fixture.clock.advance(60_000);
    expect([running.output, asking.output, fixture.backend.started.length]).toEqual([null, null, 1]);
    answer({ approved: true });
    await fixture.clock.advance(1_000);
    expect(running.output).not.toBeNull();
    expect(fixture.backend.started).toHaveLength(2);
  });

  test('when aborted, starts no program and resumes the time limits', async () => {
    const fixture = new AgentFixture({
      policy: {
        approve: (request) =>
          request.cmd === 'ask' ? new Promise(() => {}) : Promise.resolve({ approved: true }),
      },
    });
    const running = await fixture.exec({ yield_time_ms: 1_000 });
    const abort = new AbortController();
    const asking = await fixture.exec({ cmd: 'ask' }, { signal: abort.signal });
    abort.abort();
    await settled();
    expect(asking.error).toMatchObject({ kind: 'aborted' });
    await fixture.clock.advance(1_000);
    expect(running.output).not.toBeNull();
    expect(fixture.backend.started).toHaveLength(1);
  });

  test('an exception of the policy rejects the call', async () => {
    const fixture = new AgentFixture({
      policy: {
        approve: async () => {
          throw new RangeError('out of order');
        },
      },
    });
    await expect(fixture.agent.execCommand({ cmd: 'x' }, { callId: 'c' })).rejects.toThrow(RangeError);
  });
});

describe('a sandbox', () => {
  test('is chosen by the policy', async () => {
    const fixture = new AgentFixture({ policy: { chooseSandbox: () => SANDBOX } });
    await fixture.exec();
    expect(fixture.backend.last.params.sandbox).toBe(SANDBOX);
  });

  test('that stops a program immediately: the program runs again without it, once and without extra events', async () => {
    const denials: unknown[] = [];
    const fixture = new AgentFixture({
      policy: {
        chooseSandbox: () => SANDBOX,
        onDenied: async (_, denial) => {
          denials.push(denial);
          return true;
        },
      },
    });
    fixture.backend.onStart = (process) => {
      if (fixture.backend.started.length === 1) process.output('touch: Permission denied').end(1);
    };
    const call = await fixture.exec();
    const [first, second] = fixture.backend.started;
    expect(denials).toEqual([{ exitCode: 1, output: 'touch: Permission denied' }]);
    expect(second!.params).not.toHaveProperty('sandbox');
    expect(second!.processId).not.toBe(first!.processId);
    second!.output('Permission denied').end(1);
    await settled();
    expect(call).toMatchObject({ text: 'Permission denied', output: { exitCode: 1, sandboxDenied: false } });
    expect(fixture.backend.started).toHaveLength(2);
    expect(fixture.story).toEqual(['begin call-1 1000', 'delta "Permission denied"', 'end 1 failed']);
  });

  test('that stops a program is reported when the policy does not retry', async () => {
    const fixture = new AgentFixture({
      policy: { chooseSandbox: () => SANDBOX, onDenied: async () => false },
    });
    fixture.backend.onStart = (process) => void process.output('Permission denied').end(1);
    const call = await fixture.exec();
    expect(call.output).toMatchObject({ exitCode: 1, sandboxDenied: true });
    expect(fixture.story).toEqual(['begin call-1 1000', 'delta "Permission denied"', 'end 1 failed']);
  });

  test("the executor's report overrides the requested sandbox", async () => {
    const fixture = new AgentFixture({
      policy: { chooseSandbox: () => SANDBOX, onDenied: async () => true },
    });
    fixture.backend.onStart = (process) => {
      process.sandboxType = 'none';
      process.output('Permission denied').end(1);
    };
    const call = await fixture.exec();
    expect(call.output).toMatchObject({ exitCode: 1, sandboxDenied: false });
    expect(fixture.backend.started).toHaveLength(1);
  });

  test('a program that runs longer is not retried', async () => {
    const fixture = new AgentFixture({
      policy: { chooseSandbox: () => SANDBOX, onDenied: async () => true },
    });
    const call = await fixture.exec();
    expect(fixture.story).toEqual([]);
    await fixture.clock.advance(150);
    expect(fixture.story).toEqual(['begin call-1 1000']);
    fixture.backend.last.exit(1, true).close();
    await settled();
    expect(call.output).toMatchObject({ exitCode: 1, sandboxDenied: true });
    expect(fixture.backend.started).toHaveLength(1);
  });

  test('limits the output held during the early phase, and loses none', async () => {
    const fixture = new AgentFixture({
      policy: { chooseSandbox: () => SANDBOX, onDenied: async () => true },
    });
    const call = await fixture.exec();
    const part = 'z'.repeat(8_192);
    const count = (2 * HELD_OUTPUT_BYTES) / part.length;
    for (let index = 0; index < count; index++) fixture.backend.last.output(part);
    fixture.backend.last.end(0);
    await settled();
    expect(call.output).toBeNull();
    await fixture.clock.advance(150);
    while (call.output === null) await settled();
    expect(fixture.events.filter(({ type }) => type === 'outputDelta')).toHaveLength(count);
  });
});
