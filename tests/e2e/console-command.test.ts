import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { ExecServerClient } from '../../src/client/client.ts';
import { webSocketTransport } from '../../src/client/connection/open-websocket.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { TestClient } from '../../src/testing/index.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { ConsoleBrowser, closeCode } from '../support/console-browser.ts';
import { CommandUser } from '../support/private-server.ts';
import { HAS_TMUX, TmuxTerminal } from '../support/tmux.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, type CliRun, firstLine } from '../unit/cli/run-cli.ts';

const TOKEN = 'the-token-of-the-guarded-server';
const GUARD = {
  wsAuth: 'capability-token',
  wsTokenSha256: createHash('sha256').update(TOKEN).digest('hex'),
} as const;
const user = new CommandUser();
let open: RunningServer;
let guarded: RunningServer;
beforeAll(async () => {
  open = await runServer({ logLevel: 'error', console: true });
  guarded = await runServer({ logLevel: 'error', ...GUARD });
  user.workspace.file('token', TOKEN);
  mkdirSync(join(user.workspace.path, '.config/exec-server'), { recursive: true });
  await user.run(['env', 'add', 'guarded', guarded.url!, '--token-file', 'token']);
  await user.run(['env', 'add', 'gone', 'ws://127.0.0.1:1/?key=secret']);
  const codexHome = join(user.workspace.path, '.codex');
  mkdirSync(codexHome);
  const program = 'program = "/no/such/agent"\nargs = ["--key", "secret"]';
  writeFileSync(join(codexHome, 'environments.toml'), `[[environments]]\nid = "agent"\n${program}\n`);
});
afterAll(async () => {
  await Promise.all([open.close(), guarded.close()]);
  await user.close();
});

/** Starts the command and signs a browser in with the link that it prints. */
async function started(...args: string[]): Promise<{ run: CliRun; browser: ConsoleBrowser }> {
  const run = user.start(['console', '--no-open', ...args]);
  onTestFinished(() => void run.child.kill('SIGKILL'));
  return { run, browser: await ConsoleBrowser.open(await firstLine(run)) };
}

async function clientOf(browser: ConsoleBrowser, environment?: string): Promise<TestClient> {
  const client = new TestClient(webSocketTransport(await browser.connect(await browser.ticket(environment))));
  onTestFinished(() => client.close());
  await client.handshake();
  return client;
}

/** Starts a server that does not restrict connections on request, as earlier releases. Returns its URL. */
async function oldServer(): Promise<string> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => {
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  await once(server, 'listening');
  const environmentInfo = { shell: { name: 'sh', path: '/bin/sh' }, cwd: 'file:///', capabilities: {} };
  server.on('connection', (socket) =>
    socket.on('message', (data) => {
      const { id, method } = JSON.parse(String(data));
      if (id === undefined) return;
      const result = method === 'initialize' ? { sessionId: 'one', environmentInfo } : environmentInfo;
      socket.send(JSON.stringify({ id, result }));
    }),
  );
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function outputOf(client: TestClient, ...argv: string[]): Promise<string> {
  const cwd = pathToFileURL(user.workspace.path).href;
  const env = { PATH: '/usr/bin:/bin' };
  await client.call('process/start', { processId: 'p', argv, cwd, env, tty: false });
  return Buffer.from((await client.closedProcess('p')).bytes('stdout')).toString();
}

describe('the command', () => {
  test('shows all environments, connects with their tokens, and ends with Ctrl-C', async () => {
    const { run, browser } = await started();
    const { environments } = (await browser.get('session')).json as { environments: { name: string }[] };
    expect(environments).toEqual([
      {
        name: 'local',
        label: 'local',
        address: "this machine's private server",
        directory: user.workspace.path,
        default: true,
      },
      { name: 'guarded', label: 'guarded', address: guarded.url, directory: null, default: false },
      // Queries and arguments can contain secrets.
      { name: 'gone', label: 'gone', address: 'ws://127.0.0.1:1', directory: null, default: false },
      { name: 'agent', label: 'agent', address: 'agent', directory: null, default: false },
    ]);
    expect(await outputOf(await clientOf(browser), 'echo', 'private')).toBe('private\n');
    expect(await outputOf(await clientOf(browser, 'guarded'), 'echo', 'guarded')).toBe('guarded\n');
    expect(await browser.post('ticket', { environment: 'gone' })).toMatchObject({
      status: 502,
      json: {
        error: 'unreachable',
        message: expect.stringMatching(/^(?=.*127\.0\.0\.1)(?!.*secret)/),
      },
    });
    expect((await browser.post('ticket', { environment: 'agent' })).text).not.toContain('secret');
    expect((await browser.get('machine')).json).toMatchObject({
      hostname: expect.any(String),
      metrics: null,
    });
    expect((await browser.get('machine?environment=guarded')).status).toBe(404);
    const code = closeCode(await browser.connect(await browser.ticket()));
    run.child.kill('SIGINT');
    expect(await code).toBe(1001);
    expect(await run.outcome).toMatchObject({ code: 0, stderr: '' });
  });

  test('with --read-only shows programs and starts none', async () => {
    const { browser } = await started('--read-only', '-E', 'guarded');
    expect((await browser.get('session')).json).toMatchObject({
      readOnly: true,
      scopes: { exec: false, observe: true, files: 'read', net: false },
      environments: [{ name: 'guarded' }],
    });
    const client = await clientOf(browser);
    await expect(outputOf(client, 'echo', 'no')).rejects.toMatchObject({ code: -32003 });
    const { processes } = await client.call('process/list', { scope: 'server' });
    expect(processes.filter(({ argv }) => argv.includes('no'))).toEqual([]);

    // The viewer may be another person. Paths of this machine are not for them.
    user.workspace.file('token', '');
    const refused = await browser.post('ticket', {});
    user.workspace.file('token', TOKEN);
    expect([refused.status, refused.json.message]).toEqual([
      502,
      'cannot connect to guarded; the command that opened this console says why',
    ]);
  });

  test('with --read-only refuses a server that cannot restrict a connection', async () => {
    const older = await oldServer();
    const { browser } = await started('--read-only', '-E', older);
    const refused = await browser.post('ticket', {});
    expect([refused.status, refused.json.message]).toEqual([
      502,
      `${older} does not support --read-only; update exec-server there, or leave --read-only out`,
    ]);
    const { browser: all } = await started('-E', older);
    expect((await all.post('ticket', {})).status).toBe(200);
  });

  test('with --read-only cannot be deceived by what a page sends before its initialize', async () => {
    const urls = ['secret', 'other'].flatMap((key) => ['-E', `${open.url}/?key=${key}`]);
    const { browser } = await started('--read-only', ...urls);
    expect((await browser.get('session')).json).toMatchObject({
      environments: [open.url, `${open.url} (2)`].map((name) => ({ name, label: name, address: open.url })),
    });
    for (const first of [
      '{"id":"a","method":"initialize","params":{"resumeSessionId":"x"}}',
      '{"id":"a","method":"environment/info","method":"initialize","params":{}}',
      '{"id":"a","method":"initialize","params":{"capabilities":{"readOnly":false}}}',
    ]) {
      const client = new TestClient(webSocketTransport(await browser.connect(await browser.ticket())));
      onTestFinished(() => client.close());
      client.sendText(first);
      client.sendText('{"id":"b","method":"initialize","params":{"clientName":"again"}}');
      client.notify('initialized', {});
      await expect(outputOf(client, 'echo', 'no')).rejects.toMatchObject({ code: -32003 });
    }
  });

  test('opens a browser with a file that only this user can read, and removes it', async () => {
    const bin = join(user.workspace.path, 'bin');
    const seen = join(user.workspace.path, 'seen');
    mkdirSync(bin);
    const script = `#!/bin/sh\n{ echo "$1"; cat "\${1#file://}"; stat -c %a "\${1#file://}"; } > ${seen}.new\nmv ${seen}.new ${seen}\n`;
    writeFileSync(join(bin, 'xdg-open'), script, { mode: 0o755 });
    const env = { PATH: `${bin}:${process.env.PATH}` };
    const run = user.start(['console', '--open', '-E', open.url!], env);
    onTestFinished(() => void run.child.kill('SIGKILL'));
    const link = await firstLine(run);
    await waitFor('the browser', () => existsSync(seen));
    const [argument, page, mode] = readFileSync(seen, 'utf8').split('\n');
    expect(argument).not.toContain('code=');
    expect([page, mode]).toEqual([expect.stringContaining(`location.replace("${link}")`), '600']);
    run.child.kill('SIGINT');
    await run.outcome;
    expect(existsSync(fileURLToPath(argument!))).toBe(false);
  });

  test('passes binary messages where the server has them', async () => {
    const { browser } = await started('-E', 'guarded');
    const client = await ExecServerClient.connect({
      open: async () => webSocketTransport(await browser.connect(await browser.ticket())),
      resumable: false,
    });
    onTestFinished(() => client.close());
    const bytes = Buffer.alloc(3_000_000, 'content');
    const path = join(user.workspace.path, 'large');
    await client.files.write(path, bytes);
    expect(readFileSync(path).equals(bytes)).toBe(true);
    expect(Buffer.from(await client.files.read(path)).equals(bytes)).toBe(true);
  });

  test('ends the connection of the page when the server is lost', async () => {
    const ending = await runServer({ logLevel: 'error' });
    const { browser } = await started('-E', ending.url!);
    const code = closeCode(await browser.connect(await browser.ticket()));
    await ending.close();
    expect(await code).toBe(1001);
  });

  test.each([
    ['--port', 'x', "--port: 'x' is not a port"],
    ['-E', 'unknown', "unknown environment 'unknown'"],
    ['--link', '-Elocal', '--link needs a ws:// or wss:// server'],
  ])('refuses %s %s', async (flag, value, problem) => {
    const { code, stderr } = await user.run(['console', flag, value]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(problem)]);
  });
});

test.skipIf(!HAS_TMUX)('Enter prints another link, which signs in as the first one does', async () => {
  const tmux = new TmuxTerminal(user.workspace.path, { ...user.env, HOME: user.workspace.path, ENV: '' });
  onTestFinished(() => tmux.close());
  tmux.line(`clear; ${process.execPath} ${CLI} console --no-open -E ${open.url}; echo code $?`);
  await tmux.shows('Enter prints another one, Ctrl-C ends the console.');
  const links = () => tmux.screen.match(/^http:\S+$/gm) ?? [];
  expect(links()).toHaveLength(1);
  tmux.keys('Enter');
  await waitFor('the second link', () => links().length === 2);
  const [first, second] = links();
  expect(first).not.toBe(second);
  for (const link of [first!, second!]) await ConsoleBrowser.open(link);
  tmux.keys('C-c');
  await tmux.shows('code 0');
});

describe('--link', () => {
  test('says that no server is there', async () => {
    const { code, stderr } = await user.run(['console', '--link', '-E', 'ws://127.0.0.1:1']);
    expect([code, stderr]).toEqual([
      125,
      'exec-server: cannot reach http://127.0.0.1:1: connection refused; check the address and that the server is running\n',
    ]);
  });

  test('has the rights of a token, also over TLS, and says what is missing without one', async () => {
    const certificates = new Certificates();
    onTestFinished(() => certificates.remove());
    const authority = certificates.authority('link');
    const { cert, key } = certificates.signedBy(authority, 'server');
    const secure = await runServer({
      logLevel: 'error',
      console: true,
      listen: 'wss://127.0.0.1:0',
      tlsCert: cert,
      tlsKey: key,
      ...GUARD,
    });
    onTestFinished(() => secure.close());
    expect(secure.consoleLink()).toBeNull();
    const origin = secure.url!.replace('wss:', 'https:');
    const withCa = ['env', 'add', 'secure', secure.url!, '--tls-ca', authority.cert];
    expect(await user.run([...withCa, '--token-file', 'token'])).toMatchObject({ code: 0 });
    const { code, stdout } = await user.run(['console', '--link', '-E', 'secure']);
    expect([code, stdout]).toEqual([0, expect.stringMatching(`^${origin}/console/\\?[\\w-]+#code=`)]);
    const browser = await ConsoleBrowser.open(stdout.trim(), { ca: pem(authority).cert });
    expect((await browser.get('session')).json).toMatchObject({ readOnly: false, scopes: { exec: true } });

    user.workspace.file('wrong-token', 'wrong');
    for (const [flags, advice] of [
      [[], 'use --token-file or EXEC_SERVER_TOKEN'],
      [['--token-file', 'wrong-token'], 'use a valid token'],
    ] as const) {
      expect(await user.run(['env', 'rm', 'secure'])).toMatchObject({ code: 0 });
      expect(await user.run([...withCa, ...flags])).toMatchObject({ code: 0 });
      const refused = await user.run(['console', '--link', '-E', 'secure']);
      expect([refused.code, refused.stdout]).toEqual([125, '']);
      expect(refused.stderr).toMatch(new RegExp(`the server at ${origin} needs a token \\(.+\\); ${advice}`));
    }
    expect(await user.run(['env', 'rm', 'secure'])).toMatchObject({ code: 0 });
  });

  test('prints a link to the console of a server', async () => {
    const { code, stdout } = await user.run(['console', '--link', '--read-only', '-E', open.url!]);
    expect(code).toBe(0);
    const browser = await ConsoleBrowser.open(stdout.trim());
    expect((await browser.get('session')).json).toMatchObject({ readOnly: true });
  });

  test('says what to do when the server has no console', async () => {
    const { code, stderr } = await user.run(['console', '--link', '-E', 'guarded']);
    expect(code).not.toBe(0);
    expect(stderr).toContain("has no console; start it with 'exec-server serve --console'");
  });
});

/** Starts a server, and reads its stderr up to a text. */
async function serve(flags: readonly string[], until: string): Promise<{ url: string; stderr: string }> {
  const run = user.start(['serve', '--console', ...flags]);
  onTestFinished(() => void run.child.kill('SIGKILL'));
  const url = await firstLine(run);
  let stderr = '';
  for await (const piece of run.child.stderr) {
    stderr += piece;
    if (stderr.includes(until)) break;
  }
  return { url, stderr };
}

test('serve --console with tokens says how to get a link, and prints none', async () => {
  const flags = ['--ws-auth', GUARD.wsAuth, '--ws-token-sha256', GUARD.wsTokenSha256];
  const { url, stderr } = await serve(flags, 'signs a browser in');
  expect(stderr).toContain(`Console: ${url.replace('ws:', 'http:')}/console/\n`);
  expect(stderr).toContain(`'exec-server console --link -E ${url} --token-file FILE' prints a link`);
  expect(stderr).not.toContain('code=');
});

test('serve --console prints a link on stderr, and only its URL on stdout', async () => {
  const { url, stderr } = await serve([], 'another one');
  const [, link] = /^Console: (\S+)$/m.exec(stderr) ?? [];
  expect(link).toMatch(new RegExp(`^${url.replace('ws:', 'http:')}/console/\\?[\\w-]+#code=`));
  expect(stderr).toContain(`'exec-server console --link -E ${url}'`);
  await ConsoleBrowser.open(link!);
});
