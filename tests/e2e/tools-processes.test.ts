import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AgentTools, ToolResult } from '../../src/agent/toolset/index.ts';
import { openToolBench, type ToolBench } from '../support/agent-tools.ts';

let bench: ToolBench;

beforeAll(async () => {
  bench = await openToolBench();
});

afterAll(() => bench?.close());

async function call(name: string, args: object, tools: AgentTools = bench.tools): Promise<ToolResult> {
  const tool = tools.tool(name);
  if (tool === undefined) throw new Error(`no tool ${name}`);
  return tool.call(args);
}

/** Starts a command that does not end within the call, and waits until its output has a text. Returns its reference. */
async function start(cmd: string, more: object = {}, until: string | null = null): Promise<string> {
  const { structured } = await call('exec_command', { cmd, login: false, yield_time_ms: 250, ...more });
  expect(structured).toMatchObject({ state: 'running', exit_code: null });
  const process = structured.process as string;
  if (until !== null) await call('wait_process', { process, pattern: until });
  return process;
}

const kill = (process: string) => call('kill_process', { process });

describe('exec_command', () => {
  test('returns output and exit code', async () => {
    const result = await call('exec_command', { cmd: 'pwd; echo err >&2; exit 3', login: false });
    expect(result.isError).toBe(false);
    expect(result.structured).toMatchObject({
      environment: 'box',
      state: 'exited',
      exit_code: 3,
      output: expect.stringContaining(`${bench.root}\n`),
      omitted_bytes: 0,
      lost_bytes: 0,
    });
    expect(result.text).toMatch(/^Process \w+ exited with code 3\.\nNext cursor: \S+\nNext: .*\nOutput:\n/);
  });

  test('shortens long output in the middle and names the rest as a resource', async () => {
    const { structured, text, resources } = await call('exec_command', { cmd: 'seq 200000', login: false });
    expect(structured).toMatchObject({ exit_code: 0, lost_bytes: 0 });
    const output = structured.output as string;
    expect(output.startsWith('1\n2\n')).toBe(true);
    expect(output.endsWith('199999\n200000\n')).toBe(true);
    expect(Buffer.byteLength(output)).toBeLessThan(41_000);
    expect(Buffer.byteLength(text)).toBeLessThan(42_000);
    const kept = output.replace(/\n\[\.\.\. (\d+) bytes omitted \.\.\.\]\n/, '\n');
    expect(Buffer.byteLength(kept) + (structured.omitted_bytes as number)).toBe(1_288_895);
    expect(resources).toMatchObject([{ uri: `exec-server://box/processes/${structured.process}/output` }]);
    expect(text).toContain(`The server no longer has about ${1_288_895 - 2 ** 20} bytes of the beginning`);
    expect(text).toContain('redirect it to a file');

    const { process } = structured;
    const beginning = await call('read_output', { process, cursor: '0', max_output_tokens: 1_000 });
    const [first, second] = (beginning.structured.output as string).split('\n').map(Number);
    expect(second).toBe(first! + 1);
    expect(beginning.structured.lost_bytes).toBeGreaterThanOrEqual(1_288_895 - 2 ** 20);
    const tail = await call('read_output', { process, tail_lines: 50_000 });
    const { lines } = tail.structured;
    expect(lines).toBe((tail.structured.output as string).split('\n').length - 1);
    expect(tail.text).toContain(`Only the last ${lines} lines are returned`);
  });

  test('stays within its memory while a program writes 100 MB', async () => {
    const before = process.memoryUsage().rss;
    const { structured } = await call('exec_command', {
      cmd: 'head -c 100000000 /dev/zero | tr "\\0" x',
      login: false,
      yield_time_ms: 30_000,
    });
    expect(structured).toMatchObject({ exit_code: 0, lost_bytes: 0 });
    expect((structured.omitted_bytes as number) + 40_000).toBeGreaterThan(99_999_000);
    expect(process.memoryUsage().rss - before).toBeLessThan(150e6);
  });

  test('describes binary output', async () => {
    const cmd = "printf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\rIHDR'";
    const { text } = await call('exec_command', { cmd, login: false });
    expect(text).toContain('[binary data, a PNG image: 16 bytes that begin with 89 50 4e 47');
    expect(text).toContain('The output is not text.');
  });

  test('shows text with a NUL byte', async () => {
    const { structured } = await call('exec_command', { cmd: "printf 'a.txt\\0b.txt\\0'", login: false });
    expect(structured.output).toBe('a.txt\\0b.txt\\0');
  });

  test('shows characters that hide or reorder text as escapes', async () => {
    const hidden = String.fromCodePoint(0xe0041, 0xe0042);
    const cmd = `printf '\\033[1mא\\033[0m a\u202eb\u2066 c${hidden} d\u2028 👩‍💻\\tend\\n'`;
    const { structured, text } = await call('exec_command', { cmd, login: false });
    const shown = 'א a\\u{202e}b\\u{2066} c\\u{e0041}\\u{e0042} d\\u{2028} 👩‍💻\tend\n';
    expect(structured.output).toBe(shown);
    expect(text).toContain(shown);
    const { process } = structured;
    const waited = await call('wait_process', { process, pattern: 'a.b', regex: true });
    expect(waited.text).toContain('Found in the output: "a\\u202eb"');
  });

  test('ends a program at its timeout', async () => {
    const { structured, text } = await call('exec_command', { cmd: 'sleep 60', login: false, timeout: 1 });
    expect(structured).toMatchObject({ state: 'exited', ended_by_limit: 'timeout' });
    expect(text).toContain('exceeded its time limit');
  });

  test('a cancelled call leaves the program running and says how to continue', async () => {
    const cancel = new AbortController();
    const calling = bench.tools.tool('exec_command')!.call(
      { cmd: 'echo begun; sleep 60', login: false },
      {
        signal: cancel.signal,
        onProgress: ({ message }) => message.includes(' 6 bytes ') && cancel.abort(),
      },
    );
    const { structured, text } = await calling;
    expect(text).toContain('The call was cancelled. The program was not');
    expect(structured).toMatchObject({ cancelled: true, state: 'running', output: 'begun\n' });
    expect(await kill(structured.process as string)).toMatchObject({ structured: { ended: true } });
  });

  test('reports a directory that does not exist', async () => {
    const { isError, text } = await call('exec_command', { cmd: 'true', workdir: 'missing' });
    expect(isError).toBe(true);
    expect(text).toMatch(/^The working directory .*missing.* does not exist/);
  });
});

describe('write_stdin', () => {
  test('types into a process on a terminal, also one of another program', async () => {
    const cmd = 'printf "name? "; read name; echo "hello $name"';
    const process = await start(cmd, { tty: true }, 'name?');
    const other = await bench.another();
    const { structured } = await call(
      'write_stdin',
      { process, chars: 'bob\n', yield_time_ms: 20_000 },
      other,
    );
    expect(structured).toMatchObject({ exit_code: 0, output: 'name? bob\nhello bob\n', lost_bytes: 0 });
  });

  test('returns only output that is new', async () => {
    const process = await start('echo one; read line; echo two', { tty: true }, 'one');
    const { structured } = await call('write_stdin', { process, chars: '\n', yield_time_ms: 20_000 });
    expect(structured).toMatchObject({ exit_code: 0, output: '\ntwo\n' });
  });

  test('interrupts a process without a terminal and refuses other input', async () => {
    const process = await start('exec sleep 60');
    const typed = await call('write_stdin', { process, chars: 'x' });
    expect(typed).toMatchObject({ isError: true, text: expect.stringContaining('tty true') });
    const { structured } = await call('write_stdin', { process, chars: '\u0003', yield_time_ms: 5000 });
    expect(structured).toMatchObject({ state: 'exited', exit_code: 130 });
  });

  test('works while other calls wait for the same process of another program', async () => {
    const process = await start('while read line; do echo "got $line"; done', { tty: true });
    const other = await bench.another();
    const waits = Array.from({ length: 3 }, (_, index) =>
      call('wait_process', { process, pattern: `got ${index}`, timeout_ms: 20_000 }, other),
    );
    for (let index = 0; index < 3; index++) {
      const { isError } = await call('write_stdin', { process, chars: `${index}\n` }, other);
      expect(isError).toBe(false);
    }
    for (const { structured } of await Promise.all(waits)) expect(structured.happened).toBe('pattern');
    expect((await call('kill_process', { process }, other)).structured).toMatchObject({ ended: true });
  });
});

describe('wait_process', () => {
  test('returns at the end of the program', async () => {
    const process = await start('sleep 0.6; echo done; exit 4');
    const { structured, text } = await call('wait_process', { process });
    expect(structured).toMatchObject({ happened: 'exit', exit_code: 4, output: 'done\n' });
    expect(text).toContain('The program has ended.');
  });

  test('returns when a text or an expression is in the output, also in output that was returned before', async () => {
    const process = await start('printf "ready on \\033[1mport 80\\033[0m"; sleep 60', {}, 'port 80');
    const literal = await call('wait_process', { process, pattern: 'on port 80' });
    expect(literal.structured).toMatchObject({
      happened: 'pattern',
      state: 'running',
      output: '',
      earlier: true,
    });
    expect(literal.text).toContain(
      'This output was returned before. To wait for new output, pass the next cursor.',
    );
    const regex = await call('wait_process', { process, pattern: '^ready.*port \\d+$', regex: true });
    expect(regex.structured).toMatchObject({ happened: 'pattern', matched: 'ready on port 80' });
    await kill(process);
  });

  test('returns when the process listens on a port', async () => {
    const cmd = `node -e 'require("net").createServer().listen(0,"127.0.0.1",function(){console.log(this.address().port)})'`;
    const process = await start(cmd);
    const said = await call('wait_process', { process, pattern: '^\\d+$', regex: true });
    const port = Number(said.structured.matched);
    const { structured, text } = await call('wait_process', { process, port });
    expect(structured).toMatchObject({ happened: 'port', state: 'running' });
    expect(text).toContain(`The process listens on port ${port}.`);
    await kill(process);
  });

  test('with a cursor, waits for new output', async () => {
    const process = await start('echo ready; read x; echo ready; sleep 60', { tty: true }, 'ready');
    const cursor = `${process.slice(0, 4)}-1`;
    const waiting = call('wait_process', { process, pattern: 'ready', cursor });
    await call('write_stdin', { process, chars: '\n' });
    expect((await waiting).structured).toMatchObject({
      happened: 'pattern',
      earlier: false,
      output: '\nready\n',
    });
    await kill(process);
  });

  test.each([
    ['is silent', 'sleep 71'],
    ['keeps writing', 'while :; do echo more; sleep 0.1; done'],
  ])(
    'returns at the exit of a program whose descendant holds its output and %s',
    async (how, descendant) => {
      const flag = `go-${how.length}`;
      const process = await start(
        `setsid sh -c '${descendant}' & until [ -e ${flag} ]; do sleep 0.1; done; exit 3`,
      );
      const whole = { process, timeout_ms: 45_000 };
      const waiting = call('wait_process', whole);
      await call('exec_command', { cmd: `touch ${flag}`, login: false });
      const first = await waiting;
      // The exit is before the cursor of this call.
      const second = await call('wait_process', whole);
      for (const { structured, text } of [first, second]) {
        expect(structured).toMatchObject({ happened: 'exit', exit_code: 3, output_open: true });
        expect(text).toContain('a program that it started is still running and may write more output');
      }
      expect((await kill(process)).structured).not.toHaveProperty('output_open');
      // Less than the time that a call may wait.
    },
    40_000,
  );

  test('with a pattern, waits for the output of a descendant of an exited program', async () => {
    const { structured } = await call('exec_command', {
      cmd: '(until [ -e print ]; do sleep 0.1; done; echo printed) & exit 0',
      login: false,
    });
    expect(structured).toMatchObject({ exit_code: 0, output_open: true });
    const waiting = call('wait_process', { process: structured.process, pattern: 'printed' });
    await call('exec_command', { cmd: 'touch print', login: false });
    expect((await waiting).structured).toMatchObject({ happened: 'pattern' });
  });

  test('says that the time is up and the program still runs', async () => {
    const process = await start('sleep 60');
    const { structured, text } = await call('wait_process', { process, pattern: 'never', timeout_ms: 10 });
    expect(structured).toMatchObject({ happened: 'timeout', state: 'running' });
    expect(text).toContain('The time is up before the pattern was found; the program still runs.');
    await kill(process);
  });

  test('refuses an expression that backtracks without end', async () => {
    const process = await start(`printf '${'a'.repeat(40)}b'; sleep 60`, {}, 'ab');
    const { isError, text } = await call('wait_process', { process, pattern: '^(a+)+$', regex: true });
    expect(isError).toBe(true);
    expect(text).toContain('takes too long to match');
    await kill(process);
  });
});

describe('read_output', () => {
  test('pages through all output without a loss or a repetition, in different programs', async () => {
    const { structured } = await call('exec_command', {
      cmd: `i=0; while [ $i -lt 3000 ]; do printf 'l\\303\\244ne %d\\n' $i; i=$((i+1)); done`,
      login: false,
    });
    const expected = Array.from({ length: 3000 }, (_, index) => `läne ${index}\n`).join('');
    let cursor = '0';
    let output = '';
    for (let more = true, pages = 0; more && pages < 100; pages++) {
      const tools = pages === 1 ? await bench.another() : bench.tools;
      const page = await call(
        'read_output',
        { process: structured.process, cursor, max_output_tokens: 1000 },
        tools,
      );
      expect(page.structured).toMatchObject({ lost_bytes: 0, omitted_bytes: 0 });
      output += page.structured.output;
      cursor = page.structured.next_cursor as string;
      more = page.structured.more_output as boolean;
    }
    expect(output).toBe(expected);
  });

  test('returns the last lines', async () => {
    const { structured } = await call('exec_command', { cmd: 'seq 100000', login: false });
    const tail = await call('read_output', { process: structured.process, tail_lines: 3 });
    expect(tail.structured.output).toBe('99998\n99999\n100000\n');
  });

  test('counts the bytes that the server no longer has', async () => {
    const small = await openToolBench({}, { retainedOutputBytesPerProcess: 1000, snapshotHeadBytes: 0 });
    try {
      const first = await call(
        'exec_command',
        { cmd: 'echo first; read x; seq 10000; read x', tty: true, login: false, yield_time_ms: 250 },
        small.tools,
      );
      const { process, next_cursor: cursor } = first.structured;
      await call('write_stdin', { process, chars: '\n' }, small.tools);
      await call('wait_process', { process, pattern: '\n10000' }, small.tools);
      const { structured, text } = await call('read_output', { process, cursor }, small.tools);
      const lost = structured.lost_bytes as number;
      const output = (structured.output as string).replaceAll('\n', '\r\n');
      expect(lost).toBeGreaterThan(40_000);
      expect(lost + Buffer.byteLength(output)).toBe(2 + 48_894 + 10_000);
      expect(text).toContain(`${lost} bytes of output before this are lost`);
    } finally {
      await small.close();
    }
  });
});

describe('list_processes and kill_process', () => {
  test('list processes by name with their state, and end one with everything that it started', async () => {
    const process = await start('sleep 61 & sleep 62 & wait', { name: 'sleepers' });
    const { structured, text } = await call('list_processes', { running_only: true });
    expect(structured.processes).toContainEqual(
      expect.objectContaining({
        process,
        name: 'sleepers',
        state: 'running',
        command: 'sleep 61 & sleep 62 & wait',
      }),
    );
    expect(text).toContain(`${process} (sleepers); running;`);
    const taken = await call('exec_command', { cmd: 'true', name: 'sleepers', login: false });
    expect(taken).toMatchObject({ isError: true, text: expect.stringContaining('sleepers') });
    const killed = await call('kill_process', { process: 'sleepers' });
    expect(killed).toMatchObject({ isError: false, structured: { ended: true, state: 'exited', process } });
    const again = await call('kill_process', { process });
    expect(again.text).toContain('Nothing was done: the process had already ended.');
  });

  test('a signal ends only the program, and the answer says that a descendant still runs', async () => {
    const process = await start(
      "setsid sh -c 'trap : TERM; while :; do sleep 0.1; done' & echo set; wait",
      {},
      'set',
    );
    const signalled = await call('kill_process', { process, signal: 'KILL' });
    expect(signalled.structured).toMatchObject({ ended: true, exit_code: 137, output_open: true });
    expect(signalled.text).toContain('The program has ended. Not ended is a program that it started.');
    const ended = await kill(process);
    expect(ended.text).toContain('The process has ended.');
    expect(ended.structured).not.toHaveProperty('output_open');
  });

  test('a signal that the program ignores leaves it running', async () => {
    const process = await start('trap "" HUP; echo set; while :; do sleep 0.1; done', {}, 'set');
    const { structured, text } = await call('kill_process', { process, signal: 'hup' });
    expect(structured).toMatchObject({ ended: false, state: 'running' });
    expect(text).toContain('SIGHUP was sent, but it still runs.');
    await kill(process);
  });
});

describe('the next step of a running program', () => {
  test('names write_stdin only where something can be typed', async () => {
    const [silent, terminal] = await Promise.all([start('sleep 60'), start('sleep 60', { tty: true })]);
    const next = async (process: string, tools?: AgentTools) =>
      (await call('read_output', { process }, tools)).structured.next;
    expect(await next(silent)).toMatch(/a port; kill_process ends it\.$/);
    expect(await next(terminal)).toMatch(/a port; write_stdin types into it; kill_process ends it\.$/);
    const reading = await bench.another({ readOnly: true });
    expect(await next(terminal, reading)).toMatch(/a port; it can only be read and waited for from here\.$/);
    expect((await call('list_processes', {}, reading)).structured.next).not.toMatch(/kill|write/);
    await Promise.all([kill(silent), kill(terminal)]);
  });
});

test('a longer wait than one call has is cut, and the answer says so', async () => {
  const { structured } = await call('exec_command', { cmd: 'true', login: false });
  const { process } = structured;
  const waited = await call('wait_process', { process, timeout_ms: 100_000 });
  expect(waited).toMatchObject({ isError: false, structured: { happened: 'exit' } });
  expect(waited.text).toContain('timeout_ms was cut to that');
});

test('a program is ended after timeout_ms', async () => {
  const { structured } = await call('exec_command', { cmd: 'sleep 60', login: false, timeout_ms: 300 });
  expect(structured).toMatchObject({ ended_by_limit: 'timeout' });
});

describe('the screen of a program on a terminal', () => {
  /** Draws two words, the lower one first, and draws another one for each line that is typed. */
  const draw = (switches: string) =>
    `printf '${switches}\\033[2J\\033[3;5Hlower\\033[1;2Hupper'; while read -r line; do printf '\\033[2;1H<%s>' "$line"; done`;

  test('is returned instead of the output of one that draws it', async () => {
    const cmd = draw('\\033[?1049h');
    const process = await start(cmd, { tty: true }, 'upper');
    const { text, structured } = await call('read_output', { process });
    expect(structured).toMatchObject({
      screen: ' upper\n\n    lower',
      screen_cursor: { row: 1, column: 7 },
    });
    expect(text).toContain('\nScreen (the cursor is in row 1, column 7):\n upper\n\n    lower');
    expect(text).not.toContain('Output:');
    await call('write_stdin', { process, chars: 'typed\n' });
    const waited = await call('wait_process', { process, pattern: '<typed>' });
    expect(waited.structured.screen).toMatch(/^ upper.*\n<typed>\n/);
    await kill(process);
  });

  test('is returned with the output of one that moves the cursor, and not of one that prints lines', async () => {
    const drawing = await start(draw(''), { tty: true }, 'upper');
    const { text } = await call('read_output', { process: drawing, cursor: '0' });
    expect(text).toMatch(/\nScreen \(.*\):\n upper\n\n {4}lower\nOutput:\n/);
    const typed = await call('write_stdin', { process: drawing, chars: 'x' });
    expect(typed.structured).toMatchObject({ output: 'x', screen: expect.stringMatching(/^ upperx\n/) });
    const printing = await start('echo line; read -r line', { tty: true }, 'line');
    const { structured } = await call('read_output', { process: printing, cursor: '0' });
    expect(structured).not.toHaveProperty('screen');
    await Promise.all([kill(drawing), kill(printing)]);
  });
});
