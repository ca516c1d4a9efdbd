import { describe, expect, test } from 'vitest';
import { FIXED_ENVIRONMENT } from '../../../src/agent/index.ts';
import { EXECUTOR_TIMEOUT_MS } from '../../../src/agent/limits.ts';
import { ClientError } from '../../../src/client/errors.ts';
import { AgentFixture } from './agent-fixture.ts';
import { settled } from './manual-clock.ts';
import { ScriptedBackend } from './scripted-backend.ts';

describe('the started program', () => {
  test('is the shell of the environment in its folder with the fixed variables', async () => {
    const fixture = new AgentFixture({ env: { EXTRA: '1', TERM: 'xterm' } });
    const threadId = '01a1e096-8bbf-7dc1-a264-983df3779297';
    await fixture.exec({ cmd: 'ls "$X"' }, { callId: 'c7', threadId, agentSessionId: 's1' });
    expect(fixture.backend.last.params).toEqual({
      processId: expect.stringMatching(/^1000-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
      argv: ['/bin/bash', '-lc', 'ls "$X"'],
      cwd: 'file:///ws',
      env: {
        EXTRA: '1',
        NO_COLOR: '1',
        TERM: 'dumb',
        LANG: 'C.UTF-8',
        LC_CTYPE: 'C.UTF-8',
        LC_ALL: 'C.UTF-8',
        COLORTERM: '',
        PAGER: 'cat',
        GIT_PAGER: 'cat',
        GH_PAGER: 'cat',
        CODEX_CI: '1',
        CODEX_TOOL_CALL_ID: 'c7',
        CODEX_THREAD_ID: threadId,
        CODEX_SESSION_ID: 's1',
      },
      envPolicy: {
        inherit: 'all',
        ignoreDefaultExcludes: true,
        exclude: [
          'CODEX_PERMISSION_PROFILE',
          'CODEX_VERSION',
          'CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS',
          'CODEX_PLUGIN_METRICS_OUTPUT',
        ],
        set: {},
        includeOnly: [],
      },
      tty: false,
      pipeStdin: false,
      metadata: { toolCallId: 'c7', threadId },
    });
    expect(Object.keys(FIXED_ENVIRONMENT)).toHaveLength(10);
  });

  test('has no metadata when the thread id is not a UUID, because metadata would remove it', async () => {
    const fixture = new AgentFixture();
    await fixture.exec({}, { threadId: 'thread-1' });
    expect(fixture.backend.last.params.metadata).toBe(null);
    expect(fixture.backend.last.params.env.CODEX_THREAD_ID).toBe('thread-1');
  });

  test('follows the arguments', async () => {
    const fixture = new AgentFixture();
    await fixture.exec({ workdir: 'sub/../x', tty: true, login: false, shell: '/usr/bin/bash' });
    expect(fixture.backend.last.params).toMatchObject({
      argv: ['/bin/bash', '-c', 'work'],
      cwd: 'file:///ws/x',
      tty: true,
    });
  });

  test('is a shell without profile where login shells are not allowed', async () => {
    const fixture = new AgentFixture({ allowLogin: false });
    await fixture.exec();
    expect(fixture.backend.last.params.argv[1]).toBe('-c');
    const refused = await fixture.exec({ login: true });
    expect(refused.error).toMatchObject({ kind: 'invalidArguments', message: /login shells/ });
  });

  test('runs in the named environment, from the targets of the call', async () => {
    const other = new ScriptedBackend();
    const shell = { name: 'zsh', path: '/bin/zsh' };
    const fixture = new AgentFixture();
    const targets = [
      { id: 'a', backend: fixture.backend, shell, cwd: 'file:///a' },
      { id: 'b', backend: other, shell, cwd: 'file:///b' },
    ];
    await fixture.exec({ environment_id: 'b' }, { targets });
    expect(other.last.params).toMatchObject({ argv: ['/bin/zsh', '-lc', 'work'], cwd: 'file:///b' });
    const unknown = await fixture.exec({ environment_id: 'c' }, { targets });
    expect(unknown.error?.message).toBe("there is no environment 'c'; the environments are: a, b");
    const none = await fixture.exec({}, { targets: [] });
    expect(none.error?.message).toBe('there is no environment to run commands in');
  });

  test.each([
    [{ shell: 'zsh' }, "environment 'main' has no shell but bash; leave 'shell' out"],
    [
      { workdir: 'a\0b' },
      "'workdir' does not name a folder: a path cannot contain NUL; remove the NUL character",
    ],
  ])('is none for %j', async (args, message) => {
    const fixture = new AgentFixture();
    const call = await fixture.exec(args);
    expect(call.error).toMatchObject({ kind: 'invalidArguments', message });
    expect(fixture.backend.started).toEqual([]);
  });
});

describe('the wait time', () => {
  test('ends immediately when the command ends, and the result has the real duration', async () => {
    const fixture = new AgentFixture();
    fixture.backend.onStart = () => fixture.clock.advance(30);
    const call = await fixture.exec();
    await settled();
    await settled();
    await fixture.clock.advance(12);
    fixture.backend.last.output('done\n').end(3);
    await settled();
    expect(call.output).toMatchObject({ exitCode: 3, sessionId: null, sandboxDenied: false });
    expect(call.output?.text).toBe(
      'Chunk ID: 0000a9\nWall time: 0.0420 seconds\nProcess exited with code 3\nOriginal token count: 2\nOutput:\ndone\n',
    );
    expect(fixture.backend.last.calls).toEqual([]);
    expect(fixture.clock.timers).toBe(0);
  });

  test.each([
    [undefined, 10_000],
    [0, 250],
    [1_000, 1_000],
    [60_000, 30_000],
  ])('of %s ms is %s ms', async (yield_time_ms, ms) => {
    const fixture = new AgentFixture();
    const call = await fixture.exec(yield_time_ms === undefined ? {} : { yield_time_ms });
    await fixture.clock.advance(ms - 1);
    expect(call.output).toBeNull();
    await fixture.clock.advance(1);
    expect(call.output).toMatchObject({ exitCode: null, sessionId: 1000 });
    expect(fixture.backend.last.calls).toEqual([]);
  });

  test('is longer for Windows shells', async () => {
    const fixture = new AgentFixture();
    const shell = { name: 'powershell', path: 'C:\\ps.exe' };
    const targets = [{ id: 'w', backend: fixture.backend, shell, cwd: 'file:///C:/ws' }];
    const call = await fixture.exec({ yield_time_ms: 250 }, { targets });
    await fixture.clock.advance(9_999);
    expect(call.output).toBeNull();
    await fixture.clock.advance(1);
    expect(call.output).not.toBeNull();
  });

  test('is paused during a question to the user', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec({ yield_time_ms: 1_000 });
    await fixture.clock.advance(600);
    const resumeOne = fixture.agent.pause();
    const resumeOther = fixture.agent.pause();
    await fixture.clock.advance(50_000);
    resumeOne();
    resumeOne();
    await fixture.clock.advance(50_000);
    expect(call.output).toBeNull();
    resumeOther();
    await fixture.clock.advance(399);
    expect(call.output).toBeNull();
    await fixture.clock.advance(1);
    expect(call.output).not.toBeNull();
  });

  test("a command's end is returned during a question to the user", async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    fixture.agent.pause();
    fixture.backend.last.end(0);
    await settled();
    expect(call.output).toMatchObject({ exitCode: 0 });
  });

  test('does not cover output that stays open after the exit, and the session remains', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    fixture.backend.last.output('started\n').exit(0);
    await fixture.clock.advance(200);
    fixture.backend.last.output('late\n');
    await fixture.clock.advance(249);
    expect(call.output).toBeNull();
    await fixture.clock.advance(1);
    expect(call.output).toMatchObject({ exitCode: 0, sessionId: 1000 });
    expect(call.text).toBe('started\nlate\n');
    expect(fixture.backend.last.calls).toEqual([]);

    const look = await fixture.write({ session_id: 1000 });
    await fixture.clock.advance(4_000);
    expect(look.output).toBeNull();
    fixture.backend.last.output('more\n').close();
    await settled();
    expect(look.output).toMatchObject({ exitCode: 0, sessionId: null });
    expect(look.text).toBe('more\n');
  });
});

describe('output', () => {
  test('of both streams is in order and has whole characters', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    const euro = Buffer.from('€');
    fixture.backend.last.output(euro.subarray(0, 1)).output('err', 'stderr').output(euro.subarray(1)).end(0);
    await settled();
    expect(call.text).toBe('err€');
  });

  test('that is lost is replaced by a mark', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    fixture.backend.last.output('a').lose(77).output('b').lose(null).end(0);
    await settled();
    expect(call.text).toBe('a\n... 77 bytes lost ...\nb\n... some bytes lost ...\n');
  });

  test('that is lost within a character is replaced by a mark after the received bytes', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    const euro = Buffer.from('€');
    fixture.backend.last.output(euro.subarray(0, 2)).lose(7).output(euro.subarray(2)).end(0);
    await settled();
    expect(call.text).toBe('\ufffd\n... 7 bytes lost ...\n\ufffd');
  });

  test('above the limit keeps head and tail, in the result and in the end event', async () => {
    const fixture = new AgentFixture({ truncation: { mode: 'bytes', limit: 4 * 1024 * 1024 } });
    const call = await fixture.exec({ max_output_tokens: 1_000_000 });
    const part = 'x'.repeat(65_536);
    fixture.backend.last.output('FIRST');
    for (let count = 0; count < 32; count++) fixture.backend.last.output(part);
    fixture.backend.last.output('LAST').end(0);
    await settled();
    await settled();
    expect(call.text).toMatch(/^FIRSTx+\n\.\.\. 1048585 bytes omitted \.\.\.\nx+LAST$/);
    expect(call.output?.structured.original_token_count).toBe(Math.ceil((2 * 1024 * 1024 + 9) / 4));
    const end = fixture.events.at(-1);
    expect(end).toMatchObject({ type: 'end', aggregatedOutput: call.text, stdout: call.text });
  });

  test('is returned by one call only', async () => {
    const fixture = new AgentFixture();
    const { process, id } = await fixture.running();
    process.output('one');
    const first = await fixture.write({ session_id: id });
    await fixture.clock.advance(5_000);
    process.output('two').end(0);
    const second = await fixture.write({ session_id: id });
    expect([first.text, second.text]).toEqual(['one', 'two']);
  });
});

describe('failures', () => {
  test('a program that does not start', async () => {
    const fixture = new AgentFixture();
    fixture.backend.onStart = () => {
      throw new Error('no such folder');
    };
    const call = await fixture.exec();
    expect(call.error).toMatchObject({ kind: 'launchFailed', sessionId: null, output: null });
    expect(call.error?.text).toBe('exec_command failed: no such folder');
    expect(fixture.events).toEqual([]);
    fixture.backend.onStart = () => {};
    expect((await fixture.running()).id).toBeGreaterThanOrEqual(1000);
  });

  test('a start has a time limit', async () => {
    const fixture = new AgentFixture();
    fixture.backend.onStart = (_, { timeoutMs }) => {
      expect(timeoutMs).toBe(EXECUTOR_TIMEOUT_MS);
      throw new ClientError('timeout', 'the start took too long');
    };
    const call = await fixture.exec();
    expect(call.error).toMatchObject({ kind: 'launchFailed', message: 'the start took too long' });
  });

  test('a lost program: the error has the output so far', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    fixture.backend.last.output('half of it\n').fail('the connection is gone');
    await settled();
    expect(call.error).toMatchObject({ kind: 'processFailed', message: 'the connection is gone' });
    expect(call.error?.text).toMatch(
      /^exec_command failed: the connection is gone\nChunk ID: \w+\nWall time: .*\nOriginal token count: 3\nOutput:\nhalf of it\n$/,
    );
    expect(fixture.agent.list()).toEqual([]);
    expect(fixture.backend.last.calls).toEqual(['terminate']);
  });

  test('an event stream that ends before the exit', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    fixture.backend.last.output('x').cutEvents();
    await settled();
    expect(call.error).toMatchObject({ kind: 'processFailed', message: 'its events ended before its exit' });
    expect(call.text).toBe('x');
  });

  test('an aborted call leaves its program running and its output unread', async () => {
    const fixture = new AgentFixture();
    const abort = new AbortController();
    const call = await fixture.exec({}, { signal: abort.signal });
    fixture.backend.last.output('seen ');
    await fixture.clock.advance(200);
    abort.abort();
    await settled();
    expect(call.error).toMatchObject({ kind: 'aborted', sessionId: 1000, output: null });
    expect(fixture.backend.last.calls).toEqual([]);
    fixture.backend.last.output('and more').end(0);
    const look = await fixture.write({ session_id: 1000 });
    expect(look).toMatchObject({ text: 'seen and more', output: { exitCode: 0 } });
    expect(fixture.story.at(-1)).toBe('end 0 completed');
  });

  test('a call that is aborted before the start leaves no program', async () => {
    const fixture = new AgentFixture();
    const abort = new AbortController();
    fixture.backend.onStart = (_, { signal }) =>
      new Promise((_, reject) => signal!.addEventListener('abort', () => reject(new Error('given up'))));
    const call = await fixture.exec({}, { signal: abort.signal });
    abort.abort();
    await settled();
    expect(call.error).toMatchObject({ kind: 'aborted', sessionId: null });
    expect(fixture.events).toEqual([]);
  });
});
