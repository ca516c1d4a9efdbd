import { describe, expect, test } from 'vitest';
import { FIXED_ENVIRONMENT } from '../../../src/agent/index.ts';
import { EXECUTOR_TIMEOUT_MS } from '../../../src/agent/limits.ts';
import { ClientError } from '../../../src/client/errors.ts';
import { settled } from './manual-clock.ts';
import { ScriptedBackend } from './scripted-backend.ts';
import { Stage } from './stage.ts';

describe('what is started', () => {
  test('the shell of the environment, in its folder, with the fixed variables', async () => {
    const stage = new Stage({ env: { EXTRA: '1', TERM: 'xterm' } });
    const threadId = '01a1e096-8bbf-7dc1-a264-983df3779297';
    await stage.exec({ cmd: 'ls "$X"' }, { callId: 'c7', threadId, agentSessionId: 's1' });
    expect(stage.backend.last.params).toEqual({
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

  test('a thread id that is no UUID stays out of the metadata', async () => {
    const stage = new Stage();
    await stage.exec({}, { threadId: 'thread-1' });
    expect(stage.backend.last.params.metadata).toEqual({ toolCallId: 'call-1' });
    expect(stage.backend.last.params.env.CODEX_THREAD_ID).toBe('thread-1');
  });

  test('as the arguments say', async () => {
    const stage = new Stage();
    await stage.exec({ workdir: 'sub/../x', tty: true, login: false, shell: '/usr/bin/bash' });
    expect(stage.backend.last.params).toMatchObject({
      argv: ['/bin/bash', '-c', 'work'],
      cwd: 'file:///ws/x',
      tty: true,
    });
  });

  test('shells without profiles where they are not allowed', async () => {
    const stage = new Stage({ allowLogin: false });
    await stage.exec();
    expect(stage.backend.last.params.argv[1]).toBe('-c');
    const refused = await stage.exec({ login: true });
    expect(refused.error).toMatchObject({ kind: 'invalidArguments', message: /login shells/ });
  });

  test('in the environment that is named, with the places of the call', async () => {
    const other = new ScriptedBackend();
    const shell = { name: 'zsh', path: '/bin/zsh' };
    const stage = new Stage();
    const targets = [
      { id: 'a', backend: stage.backend, shell, cwd: 'file:///a' },
      { id: 'b', backend: other, shell, cwd: 'file:///b' },
    ];
    await stage.exec({ environment_id: 'b' }, { targets });
    expect(other.last.params).toMatchObject({ argv: ['/bin/zsh', '-lc', 'work'], cwd: 'file:///b' });
    const unknown = await stage.exec({ environment_id: 'c' }, { targets });
    expect(unknown.error?.message).toBe("there is no environment 'c'; the environments are: a, b");
    const none = await stage.exec({}, { targets: [] });
    expect(none.error?.message).toBe('there is no environment to run commands in');
  });

  test.each([
    [{ shell: 'zsh' }, "environment 'main' has no shell but bash; leave 'shell' out"],
    [{ workdir: 'a\0b' }, "'workdir' does not name a folder: the name of a folder cannot contain NUL"],
  ])('nothing for %j', async (args, message) => {
    const stage = new Stage();
    const call = await stage.exec(args);
    expect(call.error).toMatchObject({ kind: 'invalidArguments', message });
    expect(stage.backend.started).toEqual([]);
  });
});

describe('the window', () => {
  test('a command that ends is reported at once, with its true time', async () => {
    const stage = new Stage();
    stage.backend.onStart = () => stage.clock.advance(30);
    const call = await stage.exec();
    await settled();
    await settled();
    await stage.clock.advance(12);
    stage.backend.last.output('done\n').end(3);
    await settled();
    expect(call.output).toMatchObject({ exitCode: 3, sessionId: null, sandboxDenied: false });
    expect(call.output?.text).toBe(
      'Chunk ID: 0000a9\nWall time: 0.0420 seconds\nProcess exited with code 3\nOriginal token count: 2\nOutput:\ndone\n',
    );
    expect(stage.backend.last.calls).toEqual([]);
    expect(stage.clock.timers).toBe(0);
  });

  test.each([
    [undefined, 10_000],
    [0, 250],
    [1_000, 1_000],
    [60_000, 30_000],
  ])('of %s ms is %s ms', async (yield_time_ms, ms) => {
    const stage = new Stage();
    const call = await stage.exec(yield_time_ms === undefined ? {} : { yield_time_ms });
    await stage.clock.advance(ms - 1);
    expect(call.output).toBeNull();
    await stage.clock.advance(1);
    expect(call.output).toMatchObject({ exitCode: null, sessionId: 1000 });
    expect(stage.backend.last.calls).toEqual([]);
  });

  test('is longer where programs take long to come up', async () => {
    const stage = new Stage();
    const shell = { name: 'powershell', path: 'C:\\ps.exe' };
    const targets = [{ id: 'w', backend: stage.backend, shell, cwd: 'file:///C:/ws' }];
    const call = await stage.exec({ yield_time_ms: 250 }, { targets });
    await stage.clock.advance(9_999);
    expect(call.output).toBeNull();
    await stage.clock.advance(1);
    expect(call.output).not.toBeNull();
  });

  test('stands still while somebody is asked', async () => {
    const stage = new Stage();
    const call = await stage.exec({ yield_time_ms: 1_000 });
    await stage.clock.advance(600);
    const resumeOne = stage.agent.pause();
    const resumeOther = stage.agent.pause();
    await stage.clock.advance(50_000);
    resumeOne();
    resumeOne();
    await stage.clock.advance(50_000);
    expect(call.output).toBeNull();
    resumeOther();
    await stage.clock.advance(399);
    expect(call.output).toBeNull();
    await stage.clock.advance(1);
    expect(call.output).not.toBeNull();
  });

  test('the end of a command is seen although somebody is asked', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    stage.agent.pause();
    stage.backend.last.end(0);
    await settled();
    expect(call.output).toMatchObject({ exitCode: 0 });
  });

  test('output that stays open behind the end is not waited for, and the session stays', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    stage.backend.last.output('started\n').exit(0);
    await stage.clock.advance(200);
    stage.backend.last.output('late\n');
    await stage.clock.advance(249);
    expect(call.output).toBeNull();
    await stage.clock.advance(1);
    expect(call.output).toMatchObject({ exitCode: 0, sessionId: 1000 });
    expect(call.text).toBe('started\nlate\n');
    expect(stage.backend.last.calls).toEqual([]);

    const look = await stage.write({ session_id: 1000 });
    await stage.clock.advance(4_000);
    expect(look.output).toBeNull();
    stage.backend.last.output('more\n').close();
    await settled();
    expect(look.output).toMatchObject({ exitCode: 0, sessionId: null });
    expect(look.text).toBe('more\n');
  });
});

describe('output', () => {
  test('of both streams comes in order, and characters are not torn between them', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    const euro = Buffer.from('€');
    stage.backend.last.output(euro.subarray(0, 1)).output('err', 'stderr').output(euro.subarray(1)).end(0);
    await settled();
    expect(call.text).toBe('err€');
  });

  test('that is lost leaves a mark', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    stage.backend.last.output('a').lose(77).output('b').lose(null).end(0);
    await settled();
    expect(call.text).toBe('a\n... 77 bytes lost ...\nb\n... some bytes lost ...\n');
  });

  test('that is lost within a character leaves the mark behind what came of it', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    const euro = Buffer.from('€');
    stage.backend.last.output(euro.subarray(0, 2)).lose(7).output(euro.subarray(2)).end(0);
    await settled();
    expect(call.text).toBe('\ufffd\n... 7 bytes lost ...\n\ufffd');
  });

  test('beyond the memory keeps its ends, in the answer as in the end event', async () => {
    const stage = new Stage({ truncation: { mode: 'bytes', limit: 4 * 1024 * 1024 } });
    const call = await stage.exec({ max_output_tokens: 1_000_000 });
    const part = 'x'.repeat(65_536);
    stage.backend.last.output('FIRST');
    for (let count = 0; count < 32; count++) stage.backend.last.output(part);
    stage.backend.last.output('LAST').end(0);
    await settled();
    await settled();
    expect(call.text).toMatch(/^FIRSTx+\n\.\.\. 1048585 bytes omitted \.\.\.\nx+LAST$/);
    expect(call.output?.structured.original_token_count).toBe(Math.ceil((2 * 1024 * 1024 + 9) / 4));
    const end = stage.events.at(-1);
    expect(end).toMatchObject({ type: 'end', aggregatedOutput: call.text, stdout: call.text });
  });

  test('is returned once', async () => {
    const stage = new Stage();
    const { process, id } = await stage.running();
    process.output('one');
    const first = await stage.write({ session_id: id });
    await stage.clock.advance(5_000);
    process.output('two').end(0);
    const second = await stage.write({ session_id: id });
    expect([first.text, second.text]).toEqual(['one', 'two']);
  });
});

describe('failures', () => {
  test('a program that cannot be started', async () => {
    const stage = new Stage();
    stage.backend.onStart = () => {
      throw new Error('no such folder');
    };
    const call = await stage.exec();
    expect(call.error).toMatchObject({ kind: 'launchFailed', sessionId: null, output: null });
    expect(call.error?.text).toBe('exec_command failed: no such folder');
    expect(stage.events).toEqual([]);
    stage.backend.onStart = () => {};
    expect((await stage.running()).id).toBeGreaterThanOrEqual(1000);
  });

  test('an executor that does not answer is not waited for for ever', async () => {
    const stage = new Stage();
    stage.backend.onStart = (_, { timeoutMs }) => {
      expect(timeoutMs).toBe(EXECUTOR_TIMEOUT_MS);
      throw new ClientError('timeout', 'the start took too long');
    };
    const call = await stage.exec();
    expect(call.error).toMatchObject({ kind: 'launchFailed', message: 'the start took too long' });
  });

  test('a program that is lost keeps the output that there was', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    stage.backend.last.output('half of it\n').fail('the connection is gone');
    await settled();
    expect(call.error).toMatchObject({ kind: 'processFailed', message: 'the connection is gone' });
    expect(call.error?.text).toMatch(
      /^exec_command failed: the connection is gone\nChunk ID: \w+\nWall time: .*\nOriginal token count: 3\nOutput:\nhalf of it\n$/,
    );
    expect(stage.agent.list()).toEqual([]);
    expect(stage.backend.last.calls).toEqual(['terminate']);
  });

  test('events that end before the program does', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    stage.backend.last.output('x').cutEvents();
    await settled();
    expect(call.error).toMatchObject({ kind: 'processFailed', message: 'its events ended before its exit' });
    expect(call.text).toBe('x');
  });

  test('an aborted call lets its program run and its output wait', async () => {
    const stage = new Stage();
    const abort = new AbortController();
    const call = await stage.exec({}, { signal: abort.signal });
    stage.backend.last.output('seen ');
    await stage.clock.advance(200);
    abort.abort();
    await settled();
    expect(call.error).toMatchObject({ kind: 'aborted', sessionId: 1000, output: null });
    expect(stage.backend.last.calls).toEqual([]);
    stage.backend.last.output('and more').end(0);
    const look = await stage.write({ session_id: 1000 });
    expect(look).toMatchObject({ text: 'seen and more', output: { exitCode: 0 } });
    expect(stage.story.at(-1)).toBe('end 0 completed');
  });

  test('a call that is aborted before its program was started leaves nothing', async () => {
    const stage = new Stage();
    const abort = new AbortController();
    stage.backend.onStart = (_, { signal }) =>
      new Promise((_, reject) => signal!.addEventListener('abort', () => reject(new Error('given up'))));
    const call = await stage.exec({}, { signal: abort.signal });
    abort.abort();
    await settled();
    expect(call.error).toMatchObject({ kind: 'aborted', sessionId: null });
    expect(stage.events).toEqual([]);
  });
});
