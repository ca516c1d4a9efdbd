import { describe, expect, test } from 'vitest';
import type { Approval } from '../../../../src/agent/index.ts';
import { HELD_OUTPUT_BYTES } from '../../../../src/agent/limits.ts';
import { settled } from '../manual-clock.ts';
import { Stage } from '../stage.ts';

const SANDBOX = { permissions: { type: 'managed' } };

describe('approval', () => {
  test('is asked for the resolved command', async () => {
    const asked: unknown[] = [];
    const stage = new Stage({
      policy: {
        approve: async (request) => {
          asked.push(request);
          return { approved: true };
        },
      },
    });
    await stage.exec({
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
    expect(stage.backend.started).toHaveLength(1);
  });

  test('that is not given starts nothing', async () => {
    const stage = new Stage({
      policy: { approve: async () => ({ approved: false, reason: 'the user said no' }) },
    });
    const call = await stage.exec();
    expect(call.error).toMatchObject({ kind: 'declined', message: 'the user said no' });
    expect(stage.backend.started).toEqual([]);
    expect(stage.events).toEqual([]);
  });

  test('stops the time of other calls while it is awaited', async () => {
    let answer = (_: Approval) => {};
    const stage = new Stage({
      policy: {
        approve: (request) =>
          request.cmd === 'ask'
            ? new Promise((resolve) => {
                answer = resolve;
              })
            : Promise.resolve({ approved: true }),
      },
    });
    const running = await stage.exec({ yield_time_ms: 1_000 });
    const asking = await stage.exec({ cmd: 'ask' });
    await stage.clock.advance(60_000);
    expect([running.output, asking.output, stage.backend.started.length]).toEqual([null, null, 1]);
    answer({ approved: true });
    await stage.clock.advance(1_000);
    expect(running.output).not.toBeNull();
    expect(stage.backend.started).toHaveLength(2);
  });

  test('that is aborted starts nothing, and the time goes on', async () => {
    const stage = new Stage({
      policy: {
        approve: (request) =>
          request.cmd === 'ask' ? new Promise(() => {}) : Promise.resolve({ approved: true }),
      },
    });
    const running = await stage.exec({ yield_time_ms: 1_000 });
    const abort = new AbortController();
    const asking = await stage.exec({ cmd: 'ask' }, { signal: abort.signal });
    abort.abort();
    await settled();
    expect(asking.error).toMatchObject({ kind: 'aborted' });
    await stage.clock.advance(1_000);
    expect(running.output).not.toBeNull();
    expect(stage.backend.started).toHaveLength(1);
  });

  test('what a policy throws ends the call', async () => {
    const stage = new Stage({
      policy: {
        approve: async () => {
          throw new RangeError('out of order');
        },
      },
    });
    await expect(stage.agent.execCommand({ cmd: 'x' }, { callId: 'c' })).rejects.toThrow(RangeError);
  });
});

describe('a sandbox', () => {
  test('is chosen by the policy', async () => {
    const stage = new Stage({ policy: { chooseSandbox: () => SANDBOX } });
    await stage.exec();
    expect(stage.backend.last.params.sandbox).toBe(SANDBOX);
  });

  test('that stops a program at once: it is run again without, once, as if nothing had been', async () => {
    const denials: unknown[] = [];
    const stage = new Stage({
      policy: {
        chooseSandbox: () => SANDBOX,
        onDenied: async (_, denial) => {
          denials.push(denial);
          return true;
        },
      },
    });
    stage.backend.onStart = (process) => {
      if (stage.backend.started.length === 1) process.output('touch: Permission denied').end(1);
    };
    const call = await stage.exec();
    const [first, second] = stage.backend.started;
    expect(denials).toEqual([{ exitCode: 1, output: 'touch: Permission denied' }]);
    expect(second!.params).not.toHaveProperty('sandbox');
    expect(second!.processId).not.toBe(first!.processId);
    second!.output('Permission denied').end(1);
    await settled();
    expect(call).toMatchObject({ text: 'Permission denied', output: { exitCode: 1, sandboxDenied: false } });
    expect(stage.backend.started).toHaveLength(2);
    expect(stage.story).toEqual(['begin call-1 1000', 'delta "Permission denied"', 'end 1 failed']);
  });

  test('that stops a program, and the policy leaves it at that', async () => {
    const stage = new Stage({ policy: { chooseSandbox: () => SANDBOX, onDenied: async () => false } });
    stage.backend.onStart = (process) => void process.output('Permission denied').end(1);
    const call = await stage.exec();
    expect(call.output).toMatchObject({ exitCode: 1, sandboxDenied: true });
    expect(stage.story).toEqual(['begin call-1 1000', 'delta "Permission denied"', 'end 1 failed']);
  });

  test('the executor knows best what confines a program', async () => {
    const stage = new Stage({ policy: { chooseSandbox: () => SANDBOX, onDenied: async () => true } });
    stage.backend.onStart = (process) => {
      process.sandboxType = 'none';
      process.output('Permission denied').end(1);
    };
    const call = await stage.exec();
    expect(call.output).toMatchObject({ exitCode: 1, sandboxDenied: false });
    expect(stage.backend.started).toHaveLength(1);
  });

  test('a program that takes longer is not run again', async () => {
    const stage = new Stage({ policy: { chooseSandbox: () => SANDBOX, onDenied: async () => true } });
    const call = await stage.exec();
    expect(stage.story).toEqual([]);
    await stage.clock.advance(150);
    expect(stage.story).toEqual(['begin call-1 1000']);
    stage.backend.last.exit(1, true).close();
    await settled();
    expect(call.output).toMatchObject({ exitCode: 1, sandboxDenied: true });
    expect(stage.backend.started).toHaveLength(1);
  });

  test('output that is held back in the first moment is bounded, and none is lost', async () => {
    const stage = new Stage({ policy: { chooseSandbox: () => SANDBOX, onDenied: async () => true } });
    const call = await stage.exec();
    const part = 'z'.repeat(8_192);
    const count = (2 * HELD_OUTPUT_BYTES) / part.length;
    for (let index = 0; index < count; index++) stage.backend.last.output(part);
    stage.backend.last.end(0);
    await settled();
    expect(call.output).toBeNull();
    await stage.clock.advance(150);
    while (call.output === null) await settled();
    expect(stage.events.filter(({ type }) => type === 'outputDelta')).toHaveLength(count);
  });
});
