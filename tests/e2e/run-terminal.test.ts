import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { CommandTerminals, commandPid } from '../support/command-terminals.ts';
import { isAlive } from '../support/private-server.ts';
import { HAS_TMUX } from '../support/tmux.ts';
import { waitFor } from '../support/wait-for.ts';

const terminals = new CommandTerminals();
const { user } = terminals;
const at = (name: string) => terminals.at(name);
const terminal = () => terminals.open();
const content = (name: string) => terminals.content(name);

afterEach(() => terminals.closeTerminals());
afterAll(() => terminals.close());

describe.skipIf(!HAS_TMUX)('on a terminal', () => {
  test('a program has the size of the terminal, follows it, and gets every key', async () => {
    const tmux = terminal();
    tmux.line('exec-server run -- sh');
    await tmux.shows(/\n[$#%]$/);
    tmux.line('stty size; test -t 0 -a -t 1 && echo is a terminal');
    await tmux.shows(/^24 80\nis a terminal$/m);
    tmux.resize(100, 30);
    await waitFor('the new size', () => {
      tmux.line('stty size');
      return /^30 100$/m.test(tmux.screen);
    });
    tmux.line('exit 7');
    await tmux.shows(/exit 7\n%$/);
    tmux.line('echo code $?');
    await tmux.shows('code 7');
    tmux.line(
      `exec-server run -- sh -c 'trap "exit 9" INT; echo ready-$((1+1)); while :; do sleep 0.02; done'`,
    );
    await tmux.shows('ready-2');
    tmux.keys('C-c');
    await tmux.shows(/\^C\n?%$/);
    tmux.line('echo code $?');
    await tmux.shows('code 9');
  });

  test('an editor and a pager draw as on a local terminal', async () => {
    writeFileSync(at('text'), Array.from({ length: 100 }, (_, index) => `line ${index + 1}\n`).join(''));
    const [local, remote] = [terminal(), terminal()];
    const commands = ['vim -u NONE -N -n text', 'exec-server run -- vim -u NONE -N -n text'];
    for (const [index, tmux] of [local, remote].entries()) {
      tmux.line(commands[index]!);
      await tmux.shows(/^line 23$/m);
      expect(tmux.isAlternate).toBe(true);
      tmux.type('50Gdd:set nu');
      tmux.keys('Enter');
      await tmux.shows(/^ *51 line 52$/m);
    }
    await waitFor('the same screens', () => local.screen === remote.screen);
    for (const tmux of [local, remote]) tmux.resize(60, 15);
    await waitFor(
      'the same screens of another size',
      () => local.screen === remote.screen && local.screen.split('\n').length <= 15,
    );
    remote.type(':q!');
    remote.keys('Enter');
    await waitFor('the main screen', () => !remote.isAlternate);
    remote.line('echo code $?');
    await remote.shows('code 0');
  });

  test('less and top get keys and the new size, and leave the terminal as it was', async () => {
    writeFileSync(at('text'), Array.from({ length: 100 }, (_, index) => `line ${index + 1}\n`).join(''));
    const tmux = terminal();
    tmux.line('stty -a > before');
    tmux.line('exec-server run -- less text');
    await tmux.shows(/^line 23$/m);
    tmux.line('/line 60');
    await tmux.shows(/^line 60\n(?:.*\n)*line 82\n/);
    tmux.resize(60, 12);
    await tmux.shows(/^line 60\n(?:.*\n){9}line 70\n:$/);
    expect(tmux.isAlternate).toBe(true);
    tmux.keys('q');
    await waitFor('the main screen', () => !tmux.isAlternate);
    tmux.resize(80, 24);
    tmux.line('echo code $?');
    await tmux.shows('code 0');
    tmux.line('clear; exec-server run -e LC_ALL=C -- top -d 100');
    await tmux.shows(/^top - .*\nTasks: [\s\S]*\n +PID USER /);
    tmux.keys('h');
    await tmux.shows(/Help for Interactive Commands/);
    tmux.keys('Escape');
    await tmux.shows(/^top - /);
    tmux.resize(60, 12);
    await waitFor('a new screen', () => /^top - /.test(tmux.screen) && tmux.screen.split('\n').length <= 12);
    tmux.keys('q');
    await tmux.shows(/%$/);
    tmux.line('echo code $?; stty -a > after; echo end-$((1+2))');
    await tmux.shows(/code 0\nend-3/);
    const modes = (name: string) => readFileSync(at(name), 'utf8').replace(/rows \d+; columns \d+/, '');
    expect(modes('after')).toBe(modes('before'));
  });

  test('a shell has job control, survives its window, and attach shows its screen', async () => {
    const first = terminal();
    first.line('OF_THE_CALLER=started exec-server shell --name work');
    await first.shows(/[$#]$/);
    first.line('echo $OF_THE_CALLER-$((40+2))');
    await first.shows('started-42');
    first.line("sh -c 'echo ready-$((1+1)); exec sleep 1000'");
    await first.shows('ready-2');
    first.keys('C-z');
    await first.shows('Stopped');
    const pid = await commandPid(first);
    terminals.closeTerminals();
    await waitFor('the command to end', () => !isAlive(pid));
    const [second, third] = [terminal(), terminal()];
    second.line('clear; exec-server attach work');
    await second.shows('started-42');
    // In the foreground the shell waits for the end of the job.
    second.line('kill %1; fg; echo still-$((40+3))');
    await second.shows('still-43');
    third.line('clear; exec-server attach work');
    await third.shows('still-43');
    second.keys('Enter');
    second.type('~.');
    await second.shows(
      /detached; the program keeps running: 'exec-server attach \S+' attaches\s+again, 'exec-server kill \S+' ends it\n%$/,
    );
    second.line('echo code $?');
    await second.shows('code 125');
    await third.shows('you have the keyboard now');
    third.keys('Enter');
    third.line('exit 3');
    await third.shows(/logout\n%$/);
    third.line('echo code $?');
    await third.shows('code 3');
  });

  test('~? lists the escapes, and ~~ sends a tilde', async () => {
    const tmux = terminal();
    tmux.line('exec-server run -- cat');
    tmux.keys('Enter');
    tmux.type('~?');
    await tmux.shows(/~\.\s+detach/);
    tmux.line('~~x');
    await tmux.shows(/^~x$/m);
    tmux.keys('C-d');
    await tmux.shows(/\n%$/);
    tmux.line('echo code $?');
    await tmux.shows('code 0');
  });

  test('~. leaves a program running, which attach shows again', async () => {
    const tmux = terminal();
    tmux.line('exec-server run --name left -- sh -c "echo up; cat"');
    // Before that the keys are not the program's, and this terminal echoes them.
    await tmux.shows(/^up$/m);
    tmux.line('before');
    await tmux.shows(/^before\nbefore$/m);
    tmux.type('~.');
    await tmux.shows(/detached; the program keeps running: 'exec-server attach \S+' attaches\s+again/);
    tmux.line('echo code $?; exec-server ps --json | grep lifetime');
    await tmux.shows(/code 125\n.*"lifetime": "detached"/);
    tmux.line('clear; exec-server attach left');
    // A key that is typed earlier is not the program's.
    await tmux.shows(/^up\nbefore\nbefore/);
    tmux.keys('C-d');
    await tmux.shows(/\n%$/);
    tmux.line('echo code $?');
    await tmux.shows('code 0');
  });

  test('a watcher sees the screen and cannot type; --take-over takes the keyboard', async () => {
    const [driver, watcher] = [terminal(), terminal()];
    driver.line('exec-server run --name pair -- sh -c "echo hello; cat"');
    await driver.shows(/^hello$/m);
    watcher.line('clear; exec-server attach pair');
    await watcher.shows(/^hello\n+exec-server: another client has the keyboard; you watch until it leaves/m);
    watcher.keys('C-c');
    await watcher.shows(/the program keeps running: .*\n%$/);
    watcher.line('clear; exec-server attach --read-only pair');
    await watcher.shows(/^hello\n+exec-server: watching; Ctrl-C leaves$/m);
    watcher.type('unwanted');
    driver.line('wanted');
    await watcher.shows(/^wanted\nwanted$/m);
    expect(watcher.screen).not.toContain('unwanted');
    watcher.keys('C-c');
    await watcher.shows(/the program keeps running: .*\n%$/);
    watcher.line('clear; exec-server attach --take-over pair');
    await driver.shows('another client has taken over');
    watcher.line('mine');
    await driver.shows(/^mine\nmine$/m);
  });

  test('--take-over on a smaller terminal shows the end of the screen', async () => {
    const [driver, smaller] = [terminal(), terminal()];
    driver.line('exec-server run --name tall -- sh -c "seq 1 20; cat"');
    await driver.shows(/^20$/m);
    smaller.resize(60, 10);
    smaller.line('clear; exec-server attach --take-over tall');
    await smaller.shows(/^17\n18\n19\n20$/m);
  });

  test.each([
    ['SIGTERM', 'kill -TERM PID'],
    ['SIGINT', 'kill -INT PID'],
    ['SIGHUP', 'kill -HUP PID'],
    ['SIGQUIT', 'kill -QUIT PID'],
    ['an exception', 'kill -USR2 PID'],
    ['the end of the program', 'kill -TERM PROGRAM'],
  ])('the terminal has its old modes after %s', async (name, kill) => {
    const tmux = terminal();
    tmux.line('stty -a > before');
    const crash = user.workspace.file(
      'crash.cjs',
      "process.on('SIGUSR2', () => { throw new Error('crash'); });\n",
    );
    const node = name === 'an exception' ? `NODE_OPTIONS='--require ${crash}' ` : '';
    const pidFile = `pid-${kill.replaceAll(/\W/g, '')}`;
    tmux.line(
      `${node}exec-server run -- sh -c 'printf "\\033[?25l\\033[?1000h"; echo $$ > ${pidFile}; exec sleep 1000'; stty -a > after; echo end of test`,
    );
    const program = await content(pidFile);
    const pid = await commandPid(tmux);
    spawnSync('sh', ['-c', kill.replace('PROGRAM', program).replace('PID', String(pid))]);
    await tmux.shows(/^(?:% )?end of test$/m);
    expect(readFileSync(at('after'), 'utf8')).toBe(readFileSync(at('before'), 'utf8'));
    spawnSync('rm', [at('after'), at('before')]);
    if (name !== 'an exception') await waitFor('the program to end', () => !isAlive(Number(program)));
    else process.kill(Number(program), 'SIGKILL');
  });

  test('a program ends when its window is closed', async () => {
    const tmux = terminal();
    tmux.line("exec-server run -- sh -c 'echo $$ > window.pid; exec sleep 1000'");
    const pid = Number(await content('window.pid'));
    terminals.closeTerminals();
    await waitFor('the program to end', () => !isAlive(pid));
  });
});
