import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connect } from '../../src/client/index.ts';
import { CommandUser } from '../support/private-server.ts';
import { HAS_TMUX, TmuxTerminal } from '../support/tmux.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
const at = (name: string) => join(user.workspace.path, name);
const SCRIPT = 'echo "\\033[32mready\\033[0m"; echo API_TOKEN=hunter2; printf "10%%\\r99%%\\n" >&2; exit 4';

beforeAll(async () => {
  const ran = await user.run(['run', '--record', '--name', 'job', '--', 'sh', '-c', SCRIPT]);
  expect(ran).toMatchObject({ code: 4, stdout: expect.stringContaining('hunter2') });
});
afterAll(() => user.close());

const list = async () => JSON.parse((await user.run(['recordings', '--json'])).stdout);

test('lists recordings, also in ps', async () => {
  await waitFor('its end', async () => (await list())[0]?.state === 'complete');
  const { stdout } = await user.run(['recordings']);
  expect(stdout).toMatch(/^REF +NAME +STATE +AGE +SIZE +COMMAND\n\w{8} +job +complete +\d+s +\d+ B +sh -c/);
  expect(stdout).toContain('API_TOKEN=***');
  expect((await user.run(['ps', '-a'])).stdout).toMatch(/ RECORDING +COMMAND\n.* complete +sh -c/);
  expect((await user.run(['recordings', '-x'])).code).toBe(2);
});

test('shows the control characters of a hostile file', async () => {
  const [{ path, owner }] = await list();
  const subject = { ref: '\x1b]0;ref\x07', name: '\x1b[2J', owner, tty: true };
  const header = { version: 3, term: { cols: 80, rows: 24 }, exec_server: subject };
  const planted = join(dirname(path), '29990101T000000000Z-planted.cast');
  writeFileSync(planted, `${JSON.stringify(header)}\n`);
  onTestFinished(() => rmSync(planted));
  const { stdout } = await user.run(['recordings']);
  expect(stdout).toContain('\\x1b]0;ref\\x07  \\x1b[2J');
  expect(stdout).not.toContain('\x1b');
  // A shell inserts the candidates as they are.
  const completed = await user.run(['__complete', '--', 'play', '']);
  expect(completed.stdout).toMatch(/^files\njob\t.*\n\w+\t.*\n$/);
});

test('exports the recording by reference or name, its text, and a file', async () => {
  const [{ ref, path }] = await list();
  const recording = readFileSync(path, 'utf8');
  expect(recording).not.toContain('hunter2');
  for (const operand of [ref, 'job', path]) {
    expect(await user.run(['export', operand])).toMatchObject({ code: 0, stdout: recording });
    const text = 'ready\nAPI_TOKEN=***\n99%\n';
    expect(await user.run(['export', '--txt', operand])).toMatchObject({ code: 0, stdout: text });
  }
  expect(await user.run(['export', '-o', '-', 'job'])).toMatchObject({ code: 0, stdout: recording });
  const copy = at('copy.cast');
  expect((await user.run(['export', '-o', copy, 'job'])).code).toBe(0);
  expect(readFileSync(copy, 'utf8')).toBe(recording);
  const again = await user.run(['export', '-o', copy, 'job']);
  expect(again).toMatchObject({
    code: 125,
    stderr: expect.stringContaining('copy.cast exists; choose another'),
  });
});

test('says what a recording misses', async () => {
  const lines = ['{"version": 3, "term": {"cols": 80, "rows": 24}}', '[0, "o", "hi"]', ''];
  writeFileSync(at('killed.cast'), lines.join('\n'));
  const killed = await user.run(['export', '--txt', at('killed.cast')]);
  expect(killed).toMatchObject({ code: 0, stdout: 'hi\n' });
  expect(killed.stderr).toContain('the recording is incomplete: it has no exit status');
  const marked = [...lines.slice(0, 2), '[0, "m", "recording incomplete: 5 bytes of output are missing"]'];
  writeFileSync(at('marked.cast'), [...marked, '[0, "x", "0"]', ''].join('\n'));
  const { stderr } = await user.run(['export', '--txt', at('marked.cast')]);
  expect(stderr).toBe('the recording is incomplete: 5 bytes of output are missing\n');
});

test('export leaves no file when it fails, so that it can be repeated', async () => {
  const header = '{"version": 3, "term": {"cols": 80, "rows": 24}}';
  const exported = () => user.workspace.runHere(['export', '--v2', '-o', at('out.cast'), at('source.cast')]);
  writeFileSync(at('source.cast'), `${header}\n[0, "o", "hi"]\nnonsense\n`);
  expect(await exported()).toMatchObject({ code: 125, stderr: expect.stringContaining('line 3 of') });
  writeFileSync(at('source.cast'), `${header}\n[0, "o", "hi"]\n[0, "x", "0"]\n`);
  expect(await exported()).toMatchObject({ code: 0, stderr: '' });
  expect(readFileSync(at('out.cast'), 'utf8')).toContain('"hi"');
});

test.each([
  [['export'], 2, "name a file or a recording; 'exec-server recordings' lists them"],
  [['export', 'a', 'b'], 2, "unexpected argument 'b'; name one recording"],
  [['export', '--v2', '--txt', 'job'], 2, '--v2 and --txt exclude each other'],
  [
    ['export', 'nothing'],
    125,
    "no recording of a program with this reference or name; 'exec-server recordings'",
  ],
  [['export', './nothing'], 125, 'there is no file ./nothing; write its path'],
  [['export', '--txt', CLI], 125, 'is wrong: it is not JSON; name a recording'],
  [['export', '--txt', '/'], 125, 'exec-server: cannot read /: it is a directory; name a file\n'],
  [['play', 'job'], 2, "play needs a terminal as stdout; 'exec-server export --txt' prints the text"],
  [['play', '--speed', '0', 'job'], 2, "--speed '0' is not a speed; write a number such as 2 or 0.5"],
  [['play', '--idle-limit', '5', 'job'], 2, "--idle-limit '5' is not a time"],
])('%j is refused', async (args, code, message) => {
  const ran = await user.run(args);
  expect(ran).toMatchObject({ code, stdout: '' });
  expect(ran.stderr).toContain(message);
});

/** A recording of a server that was killed while it wrote a line. */
const TORN = [
  '{"version": 3, "term": {"cols": 80, "rows": 24}}',
  '[0.1, "o", "whole\\r\\n"]',
  '[0.1, "m", "attached: ann (viewer)"]',
  '[0.1, "o", "last\\r\\n"]',
  '[0.1, "o", "torn of',
].join('\n');

describe.skipIf(spawnSync('asciinema', ['--version']).error !== undefined)(
  'asciinema plays the export in the format v2',
  () => {
    /** Exports a recording, and plays the export. Returns what asciinema has printed. */
    const played = async (recording: string, name: string) => {
      const exported = await user.run(['export', '--v2', '-o', at(name), recording]);
      expect(exported).toMatchObject({ code: 0 });
      const env = { PATH: process.env.PATH, HOME: user.workspace.path, LANG: 'C.UTF-8' };
      const options = { encoding: 'utf8', env } as const;
      const { stdout, stderr, status } = spawnSync('asciinema', ['play', '-s', '1000', at(name)], options);
      expect([status, stderr]).toEqual([0, '']);
      return stdout;
    };
    const eventsOf = (name: string): [number, string, string][] =>
      readFileSync(at(name), 'utf8')
        .trimEnd()
        .split('\n')
        .slice(1)
        .map((line) => JSON.parse(line));

    test('of pipes', async () => {
      const stdout = await played('job', 'v2.cast');
      expect(stdout).toBe('\x1b[32mready\x1b[0m\r\nAPI_TOKEN=***\r\n10%\r99%\r\n');
      const header = JSON.parse(readFileSync(at('v2.cast'), 'utf8').split('\n')[0]!);
      expect(header).toMatchObject({ version: 2, width: 80, height: 24, title: 'job' });
      const text = 'ready\nAPI_TOKEN=***\n99%\n';
      expect(await user.run(['export', '--txt', at('v2.cast')])).toMatchObject({ stdout: text });
    });

    test('of a terminal with input, another size and markers', async () => {
      const open = () => connect({ url: `unix://${join(user.folder, 'server.sock')}`, clientName: 'test' });
      const [client, other] = [await open(), await open()];
      onTestFinished(async () => void (await Promise.all([client.close(), other.close()])));
      const argv = ['sh', '-c', 'stty -echo; echo ready; read -r line; echo "got $line"'];
      const program = await client.spawn(argv, { tty: true, record: { input: true } });
      for await (const event of program.events()) if (event.type === 'output') break;
      await program.resize(30, 100);
      const viewer = await other.attach(program.ref!, { role: 'viewer' });
      await viewer.detach();
      await program.write('words\r');
      await program.wait();
      const recorded = async () => (await list()).find(({ ref }: { ref: string }) => ref === program.ref);
      await waitFor('its end', async () => (await recorded())?.state === 'complete');
      expect(await played(program.ref!, 'terminal.cast')).toBe('ready\r\ngot words\r\n');
      const events = eventsOf('terminal.cast');
      expect(events.map(([, code, text]) => `${code} ${text}`)).toEqual(
        expect.arrayContaining(['r 100x30', 'm attached: test (viewer)', 'i words\r']),
      );
      expect(events.map(([time]) => time)).toEqual(events.map(([time]) => time).toSorted((a, b) => a - b));
    });

    test('of a server that was killed: without the line that it did not finish', async () => {
      writeFileSync(at('torn.cast'), TORN);
      expect(await played(at('torn.cast'), 'torn-v2.cast')).toBe('whole\r\nlast\r\n');
      expect(eventsOf('torn-v2.cast').map(([time, code]) => [time, code])).toEqual([
        [0.1, 'o'],
        [0.2, 'm'],
        [0.3, 'o'],
      ]);
      const text = await user.run(['export', '--txt', at('torn.cast')]);
      expect(text).toMatchObject({ code: 0, stdout: 'whole\nlast\n' });
      expect(text.stderr).toContain('the recording is incomplete: it has no exit status');
    });
  },
);

describe.skipIf(!HAS_TMUX)('play on a terminal', () => {
  function terminal(): TmuxTerminal {
    const env = { ...user.env, HOME: user.workspace.path, ENV: '' };
    const opened = new TmuxTerminal(user.workspace.path, env);
    onTestFinished(() => opened.close());
    return opened;
  }
  const command = `${process.execPath} ${CLI}`;

  test('plays a recording of a server, and leaves the terminal as it was', async () => {
    const tmux = terminal();
    tmux.line(`clear; ${command} play --speed 100 job; echo code $?; stty -a | tr ' ' '\\n' | grep opost`);
    await tmux.shows(/^ready\nAPI_TOKEN=\*\*\*\n99%\ncode 0\nopost\n%$/m);
  });

  test('plays a recording whose last line is incomplete, and says what is missing', async () => {
    writeFileSync(at('torn.cast'), TORN);
    const tmux = terminal();
    tmux.line(`clear; ${command} play torn.cast; echo code $?`);
    await tmux.shows(/^whole\nlast\nthe recording is incomplete: it has no exit status.*\ncode 0\n%$/ms);
  });

  test('shortens pauses of an hour by --speed and by --idle-limit', async () => {
    const header = '{"version": 3, "term": {"cols": 80, "rows": 24}}';
    const events = ['[3600, "o", "one\\r\\n"]', '[3600, "o", "two\\r\\n"]', '[0, "x", "0"]', ''];
    writeFileSync(at('long.cast'), [header, ...events].join('\n'));
    const tmux = terminal();
    tmux.line(`clear; ${command} play --speed 1000000 long.cast; echo code $?`);
    await tmux.shows(/^one\ntwo\ncode 0\n%$/m);
    tmux.line(`clear; ${command} play --idle-limit 1ms long.cast; echo limited $?`);
    await tmux.shows(/^one\ntwo\nlimited 0\n%$/m);
  });

  test('pauses, steps and quits by keys', async () => {
    const header = '{"version": 3, "term": {"cols": 80, "rows": 24}}';
    const steps = ['[0, "o", "one\\r\\n"]', '[600, "o", "two\\r\\n"]', '[600, "o", "\\u001b[?1049hthree"]'];
    writeFileSync(at('slow.cast'), [header, ...steps, '[600, "o", "four"]', ''].join('\n'));
    const tmux = terminal();
    tmux.line(`clear; ${command} play slow.cast; echo code $?`);
    await tmux.shows(/^one$/m);
    tmux.type(' .');
    await tmux.shows(/^two$/m);
    tmux.type('.');
    await tmux.shows('three');
    expect(tmux.isAlternate).toBe(true);
    tmux.type('q');
    await tmux.shows(/^one\ntwo\ncode 0\n%$/m);
  });

  test('a shell is recorded', async () => {
    const tmux = terminal();
    tmux.line(`${command} shell --record --name work`);
    await tmux.shows(/\n.*[$#%]$/);
    tmux.line('echo in-$((1+1)); exit 3');
    await waitFor('the recording', async () =>
      (await list()).some(
        ({ name, state }: Record<string, string>) => name === 'work' && state === 'complete',
      ),
    );
    expect((await user.run(['export', '--txt', 'work'])).stdout).toContain('in-2');
  });
});
