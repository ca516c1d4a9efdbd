import { createReadStream, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { TcpProxy } from '../../src/testing/index.ts';
import { CommandTerminals, childrenOf, commandPid } from '../support/command-terminals.ts';
import { MessageProxy } from '../support/message-proxy.ts';
import { isAlive } from '../support/private-server.ts';
import { HAS_TMUX, type TmuxTerminal } from '../support/tmux.ts';
import { waitFor } from '../support/wait-for.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

const terminals = new CommandTerminals();
const { user } = terminals;
const at = (name: string) => terminals.at(name);
let server: string;
let forgetful: string;

beforeAll(async () => {
  [server, forgetful] = (await Promise.all([
    firstLine(user.start(['serve'])),
    firstLine(
      user.start(['serve', '--detached-session-ttl', '300ms', '--max-detached-session-ttl', '300ms']),
    ),
  ])) as [string, string];
});
afterEach(() => terminals.closeTerminals());
afterAll(() => terminals.close());

async function proxyTo(url: string): Promise<TcpProxy> {
  const proxy = await TcpProxy.open(url);
  onTestFinished(() => proxy.close());
  return proxy;
}

/** Types a command whose program hides the cursor and reports the mouse, and compares the modes of the terminal before and after. */
async function keepsModes(
  command: (program: string) => string,
  end: (tmux: TmuxTerminal, program: number) => Promise<void> | void,
): Promise<TmuxTerminal> {
  const tmux = terminals.open();
  const name = `modes-${++runs}`;
  tmux.line(`stty -a > ${name}.before`);
  const program = `sh -c 'printf "\\033[?25l\\033[?1000h"; echo up-$((1+1)); echo $$ > ${name}.pid; exec sleep 1000'`;
  tmux.line(command(program));
  const pid = Number(await terminals.content(`${name}.pid`));
  await tmux.shows('up-2');
  await end(tmux, pid);
  await tmux.shows(/%$/);
  tmux.line(`echo code $?; stty -a > ${name}.after; echo end-$((1+2))`);
  await tmux.shows('end-3');
  expect(readFileSync(at(`${name}.after`), 'utf8')).toBe(readFileSync(at(`${name}.before`), 'utf8'));
  return tmux;
}
let runs = 0;

test.skipIf(!HAS_TMUX)(
  'shell says what a server lacks that cannot keep a shell, and what to use instead',
  async () => {
    const proxy = await MessageProxy.open(server, ({ text }) => ({
      text: text.replace('"processSharing":true', '"processSharing":false'),
    }));
    onTestFinished(() => proxy.close());
    const tmux = terminals.open();
    tmux.line(`exec-server shell -E ${proxy.url}`);
    await tmux.shows('it lacks processSharing; update it');
    tmux.line('echo code-$?');
    await tmux.shows('code-125');
  },
);

describe.skipIf(!HAS_TMUX)('~. of run', () => {
  test('while the link is silent says that the server does not answer, and gives up when it is typed again', async () => {
    const proxy = await proxyTo(server);
    const tmux = terminals.open();
    tmux.line(
      `exec-server run -E ${proxy.url} -- sh -c 'echo $$ > silent.pid; echo up-$((1+1)); exec sleep 1000'`,
    );
    const pid = Number(await terminals.content('silent.pid'));
    await tmux.shows('up-2');
    proxy.setStalled(true);
    tmux.keys('Enter');
    tmux.type('~.');
    await tmux.shows('the server does not answer; ~. again gives up');
    tmux.type('~.');
    await tmux.shows('the connection is lost, so the program may still run');
    tmux.line('echo code-$?');
    await tmux.shows('code-125');
    expect(isAlive(pid)).toBe(true);
  });

  test('on a link that works, it removes nothing: the program may end at the same moment', async () => {
    const proxy = await MessageProxy.open(server);
    onTestFinished(() => proxy.close());
    const forgets = () => proxy.log.filter(({ text }) => text.includes('process/forget')).length;
    const tmux = terminals.open();
    tmux.line(`exec-server run -E ${proxy.url} -- sh -c 'echo up-$((1+1)); exec sleep 1000'`);
    await tmux.shows('up-2');
    tmux.keys('Enter');
    tmux.type('~.');
    await tmux.shows('detached; the program keeps running');
    await tmux.shows(/%$/);
    expect(forgets()).toBe(0);
    tmux.line(`exec-server run -E ${proxy.url} -- echo end-$((1+2))`);
    await tmux.shows('end-3');
    await tmux.shows(/%$/);
    expect(forgets()).toBe(1);
  });

  test('while the link is silent detaches when the loss is noticed', async () => {
    const proxy = await proxyTo(server);
    const tmux = terminals.open();
    tmux.line(
      `exec-server run -E ${proxy.url} -- sh -c 'echo $$ > cut.pid; echo up-$((1+1)); exec sleep 1000'`,
    );
    const pid = Number(await terminals.content('cut.pid'));
    await tmux.shows('up-2');
    proxy.setStalled(true);
    tmux.keys('Enter');
    tmux.type('~.');
    await tmux.shows('the server does not answer');
    proxy.interrupt();
    await tmux.shows('the connection is lost, so the program may still run');
    expect(isAlive(pid)).toBe(true);
  });
});

describe.skipIf(!HAS_TMUX)('the terminal has its old modes after', () => {
  test('~.', async () => {
    const tmux = await keepsModes(
      (program) => `exec-server run -- ${program}`,
      async (terminal) => {
        terminal.keys('Enter');
        terminal.type('~.');
        await terminal.shows('detached; the program keeps running');
      },
    );
    await tmux.shows('code 125');
  });

  test('a server that was lost', async () => {
    const proxy = await proxyTo(forgetful);
    const tmux = await keepsModes(
      (program) => `exec-server run -E ${proxy.url} -- ${program}`,
      async (terminal) => {
        proxy.interrupt();
        await terminal.shows(/lost the\s+server/);
      },
    );
    await tmux.shows('code 125');
  });

  test('a parent that was killed with SIGKILL', async () => {
    await keepsModes(
      (program) => `sh -c "exec-server run -- $(cat <<'EOF'\n${program}\nEOF\n); :"`,
      async (terminal, program) => {
        const parent = await commandPid(terminal);
        const command = Number(childrenOf(parent)[0]);
        process.kill(parent, 'SIGKILL');
        await waitFor('the command to end', () => !isAlive(command));
        await waitFor('the program to end', () => !isAlive(program));
      },
    );
  });
});

/** Prints `ready`, and `caught` when it gets SIGINT. */
const CATCHES = `sh -c 'trap "echo caught; exit 9" INT; echo ready-$((1+1)); while :; do sleep 0.02; done'`;

describe.skipIf(!HAS_TMUX)('with only one end on a terminal', () => {
  test('Ctrl-C and escapes work when stdout is a pipe', async () => {
    const tmux = terminals.open();
    const piped = (program: string) =>
      tmux.line(`clear; (trap : INT; exec-server run -- ${program}; echo code $? >&2) | (trap '' INT; cat)`);
    piped(CATCHES);
    await tmux.shows('ready-2');
    tmux.keys('C-c');
    await tmux.shows(/caught\n(?:.*\n)*code 9/);
    piped(`sh -c 'echo up; cat'`);
    await tmux.shows(/^up$/m);
    tmux.line('typed');
    await tmux.shows(/^typed\ntyped$/m);
    tmux.line('~?');
    await tmux.shows(/~\.\s+detach/);
    tmux.line('~.');
    await tmux.shows(/detached; the program keeps running[\s\S]*code 125/);
  });

  test('Ctrl-C works when stdin is a pipe', async () => {
    const tmux = terminals.open();
    tmux.line('mkfifo fifo');
    tmux.line(`(trap : INT; (trap '' INT; exec cat fifo) | exec-server run -- ${CATCHES}; echo code $?)`);
    await tmux.shows('ready-2');
    tmux.keys('C-c');
    await tmux.shows('caught');
    // The reader of the fifo ends, and with it the pipeline.
    writeFileSync(at('fifo'), '');
    await tmux.shows('code 9');
  });
});

describe.skipIf(!HAS_TMUX)('while the connection is lost', () => {
  test.each([
    ['~.', (tmux: TmuxTerminal) => tmux.type('~.')],
    [
      'Ctrl-C twice',
      async (tmux: TmuxTerminal) => {
        tmux.keys('C-c');
        await tmux.shows(/Ctrl-C again gives up/);
        tmux.keys('C-c');
      },
    ],
  ])('%s leaves the program, and stderr says that it may still run', async (_keys, press) => {
    const proxy = await proxyTo(server);
    const tmux = await keepsModes(
      (program) => `exec-server run -E ${proxy.url} -- ${program}`,
      async (terminal) => {
        terminal.keys('Enter');
        proxy.interrupt();
        await terminal.shows('reconnecting…');
        await press(terminal);
        await terminal.shows(/the\s+program may still run[\s\S]*exec-server attach/);
      },
    );
    await tmux.shows('code 125');
  });

  test('an editor draws its screen again when the connection is back', async () => {
    writeFileSync(at('text'), Array.from({ length: 100 }, (_, index) => `line ${index + 1}\n`).join(''));
    const proxy = await proxyTo(server);
    const tmux = terminals.open();
    tmux.line(`exec-server run -E ${proxy.url} -w ${at('.')} -- vim -u NONE -N -n text`);
    await tmux.shows(/^line 23$/m);
    tmux.type('50Gdd');
    const before = await tmux.shows(/^line 51$/m);
    proxy.interrupt();
    await tmux.shows('reconnecting…');
    proxy.restore();
    await waitFor('the same screen', () => tmux.screen === before);
    tmux.type('u');
    await tmux.shows(/^line 50$/m);
    tmux.line(':q!');
    await tmux.shows(/%$/);
    tmux.line('echo code $?');
    await tmux.shows('code 0');
  });
});

test('stdin that a program does not read is not read either', async () => {
  const size = 64 * 1024 * 1024;
  writeFileSync(at('endless'), '');
  truncateSync(at('endless'), size);
  const script = `while [ ! -e ${at('read-now')} ]; do sleep 0.02; done; wc -c`;
  const { child, outcome } = user.start(['run', '-E', server, '--', 'sh', '-c', script]);
  let sent = 0;
  const source = createReadStream(at('endless')).on('data', (chunk) => {
    sent += chunk.length;
  });
  source.pipe(child.stdin);
  let before = -1;
  await waitFor('the end of the reading', async () => {
    if (sent > 0 && sent === before) return true;
    before = sent;
    await new Promise((resolve) => setTimeout(resolve, 500));
    return false;
  });
  expect(sent).toBeLessThan(size / 2);
  user.workspace.file('read-now', '');
  expect(await outcome).toMatchObject({ code: 0, stdout: `${size}\n`, stderr: '' });
});

test.skipIf(!HAS_TMUX)('cp draws its progress on a terminal, and clears it', async () => {
  let blocks = 0;
  const messages = await MessageProxy.open(server, ({ text }) => {
    if (text.slice(0, 200).includes('"fs/writeBlock"') && ++blocks === 10) proxy.setStalled(true);
    return 'pass';
  });
  onTestFinished(() => messages.close());
  const proxy = await proxyTo(messages.url);
  writeFileSync(at('large'), '');
  truncateSync(at('large'), 24 * 1024 * 1024);
  const tmux = terminals.open();
  tmux.line(`clear; exec-server cp large ${proxy.url}:${at('copied')}; echo code $?`);
  await tmux.shows(/^\d+% {2}[\d.]+ MB {2}[\d.]+ \wB\/s {2}ETA \S+ {2}.*large$/m);
  proxy.setStalled(false);
  const screen = await tmux.shows(/^code 0$/m);
  expect(screen.replace(/^.*exec-server cp .*\n/, '')).toBe('code 0\n%');
});
