import { describe, expect, it } from 'vitest';
import { ClientError, type SharedProcesses } from '../../../src/environment/index.ts';
import { AgentFixture } from './agent-fixture.ts';
import { settled } from './manual-clock.ts';
import { ScriptedBackend, ScriptedProcess } from './scripted-backend.ts';

const shell = { name: 'bash', path: '/bin/bash' };

/** An agent whose executor has one program of another agent, with the reference `r1`. */
function setUp(tty = true) {
  const process = new ScriptedProcess({ processId: 'r1', argv: [], cwd: '', env: {}, tty });
  process.ref = 'r1';
  const attached: unknown[] = [];
  const processes: Partial<SharedProcesses> = {
    async get(ref) {
      if (ref !== 'r1') throw new ClientError('notFound', `no process has the reference or name "${ref}"`);
      const argv = ['/bin/bash', '-lc', 'make'];
      return { processId: ref, ref, argv, cwd: '/src', tty, startedAt: new Date(5) } as never;
    },
    async attach(ref, options) {
      attached.push([ref, options?.takeOver]);
      return process;
    },
  };
  const target = { id: 'main', backend: new ScriptedBackend(), shell, cwd: 'file:///ws' };
  const fixture = new AgentFixture({ targets: [{ ...target, processes: processes as SharedProcesses }] });
  return { fixture, process, attached };
}

describe('reopen', () => {
  it('continues with a program of another agent', async () => {
    const { fixture, process, attached } = setUp();
    process.output('before\n', 'pty');
    const id = await fixture.agent.reopen('r1', { callId: 'again' });
    expect(attached).toEqual([['r1', true]]);
    expect(fixture.agent.list()).toEqual([
      {
        itemId: 'again',
        processId: String(id),
        ref: 'r1',
        command: ['/bin/bash', '-lc', 'make'],
        cwd: 'file:///src',
      },
    ]);
    const call = await fixture.write({ session_id: id, chars: 'y\n' });
    await fixture.clock.advance(500);
    expect(call.text).toBe('before\n');
    expect(call.output).toMatchObject({ sessionId: id, ref: 'r1' });
    expect(process.calls).toEqual(['write "y\\n"']);
    const last = await fixture.write({ session_id: id });
    process.end(0);
    await settled();
    expect(last.output).toMatchObject({ exitCode: 0, sessionId: null, ref: null });
    expect(fixture.story).toEqual([
      `begin again ${id}`,
      'delta "before\\n"',
      'typed "y\\n"',
      'end 0 completed',
    ]);
  });

  it('rejects and leaves no session when the executor does not have the program', async () => {
    const { fixture } = setUp();
    const unknown = fixture.agent.reopen('r2', { callId: 'c' });
    await expect(unknown).rejects.toMatchObject({ name: 'ClientError', kind: 'notFound' });
    expect(fixture.agent.list()).toEqual([]);
    const without = new AgentFixture();
    await expect(without.agent.reopen('r1', { callId: 'c' })).rejects.toMatchObject({ kind: 'unsupported' });
    await expect(fixture.agent.reopen('r1', { callId: 'c', environmentId: 'x' })).rejects.toMatchObject({
      kind: 'invalidArguments',
    });
  });

  it('detaches from a program that it finds after the agent was closed', async () => {
    const { fixture, process } = setUp();
    const opening = fixture.agent.reopen('r1', { callId: 'c' });
    await fixture.agent.close();
    await expect(opening).rejects.toMatchObject({ kind: 'closed' });
    expect(process.calls).toEqual(['detach']);
    expect(fixture.story).toEqual([]);
  });
});

describe('an agent with `detached`', () => {
  it('starts programs that outlive it, and lets them go when it closes', async () => {
    const fixture = new AgentFixture({ detached: true });
    const { process } = await fixture.running();
    expect(process.params.lifetime).toEqual({ type: 'detached' });
    await fixture.agent.close({ terminate: false });
    expect(process.calls).toEqual(['detach']);
    expect(fixture.story.at(-1)).toBe('end -1 failed');
  });
});
