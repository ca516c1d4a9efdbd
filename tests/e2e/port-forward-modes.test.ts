import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { type ServerProcess, startServerProcess, TcpProxy } from '../../src/testing/index.ts';
import { answerOf, type RunningForward, startForward } from '../support/port-forward.ts';
import { CommandUser } from '../support/private-server.ts';
import { plain } from '../support/programs.ts';
import { echoPeer } from '../support/tcp-peers.ts';
import { waitFor } from '../support/wait-for.ts';

const user = new CommandUser();
let server: ServerProcess;
let client: ExecServerClient;
beforeAll(async () => {
  server = await startServerProcess();
  client = await ExecServerClient.connect(server.url);
});
afterAll(async () => {
  await client.close();
  await server.close();
  await user.close();
});

/** Listens on a free port of an address, and answers. It closes the port when it reads from stdin, and goes on with open connections. */
const LISTENER = `
  const server = require('net').createServer({ allowHalfOpen: true }, (socket) => socket.on('error', () => {}).pipe(socket));
  server.listen({ port: Number(process.argv[2] ?? 0), host: process.argv[1] }, () => console.log(server.address().port));
  process.stdin.on('data', () => server.close()).on('end', () => process.exit());`;

let listeners = 0;

async function startListener(address: string, port?: number) {
  const processId = `listener-${++listeners}`;
  const argv = [process.execPath, '-e', LISTENER, address, ...(port === undefined ? [] : [String(port)])];
  const program = await client.backend.start({ ...plain, processId, argv, pipeStdin: true });
  onTestFinished(async () => void (await program.terminate()));
  for await (const event of program.events()) {
    if (event.type !== 'output') throw new Error(`the program has ${event.type}`);
    return { program, port: Number(Buffer.from(event.bytes).toString()) };
  }
  throw new Error('the program printed nothing');
}

interface ForwardEvent {
  readonly type: string;
  readonly port: number;
  readonly remotePort: number;
  readonly ref: string;
}

function eventsOf(forward: RunningForward): readonly ForwardEvent[] {
  return forward
    .stdout()
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

function findEvent(forward: RunningForward, type: string, remotePort: number) {
  const what = `${type} of ${remotePort}`;
  return waitFor(what, () =>
    eventsOf(forward).find((each) => each.type === type && each.remotePort === remotePort),
  );
}

describe('--auto', () => {
  test('binds the ports of programs while they listen; a port that is taken gets another one', async () => {
    const forward = await startForward(user, ['-E', server.url, '--auto', '--json'], { count: 0 });
    // The local port of 127.0.0.1 is free, because the program listens on another loopback address.
    const elsewhere = await startListener('127.0.0.2');
    const same = await findEvent(forward, 'listening', elsewhere.port);
    expect(same).toMatchObject({ address: '127.0.0.1', port: elsewhere.port, ref: expect.any(String) });
    expect(await answerOf(elsewhere.port, 'same')).toBe('same');

    const here = await startListener('127.0.0.1');
    const other = await findEvent(forward, 'listening', here.port);
    expect(other!.port).not.toBe(here.port);
    expect(await answerOf(other!.port, 'other')).toBe('other');

    const open = connect({ port: other!.port, host: '127.0.0.1' });
    open.write('kept');
    await once(open, 'data');
    await here.program.write('close');
    expect(await findEvent(forward, 'closed', here.port)).toMatchObject({ port: other!.port });
    expect(await answerOf(other!.port, 'x')).toBe('ECONNREFUSED');
    // The program still has this connection.
    open.write('still');
    expect(String((await once(open, 'data'))[0])).toBe('still');
    open.destroy();
    expect(await answerOf(elsewhere.port, 'same')).toBe('same');
  });

  test('prints lines for people', async () => {
    const { program, port } = await startListener('127.0.0.1');
    const forward = await startForward(user, ['-E', server.url, '--auto']);
    const line = new RegExp(
      `^(127.0.0.1:\\d+) -> ${port} \\(\\w+\\); port ${port} of this machine is in use or privileged\\n`,
    );
    expect(forward.stdout()).toMatch(line);
    const [, local] = line.exec(forward.stdout())!;
    await program.write('close');
    const closed = `${local} closed: the program no longer listens on ${port}\n`;
    await waitFor('the end', () => forward.stdout().endsWith(closed));
    expect(await forward.stop('SIGINT')).toBe(0);
  });

  test('keeps the ports through a lost connection', async () => {
    const proxy = await TcpProxy.open(server.url);
    onTestFinished(() => proxy.close());
    const { port } = await startListener('0.0.0.0');
    const forward = await startForward(user, ['-E', proxy.url, '--auto', '--json'], { count: 1 });
    const before = await findEvent(forward, 'listening', port);
    proxy.interrupt();
    await waitFor('the loss', () => forward.stdout().includes('"reconnecting"'));
    const waiting = answerOf(before!.port, 'waited');
    const meanwhile = await startListener('127.0.0.1');
    proxy.restore();
    expect(await waiting).toBe('waited');
    await findEvent(forward, 'listening', meanwhile.port);
    const ofFirst = eventsOf(forward).filter(({ remotePort }) => remotePort === port);
    expect(ofFirst.map(({ type }) => type)).toEqual(['listening']);
  });

  test('does not forward its own ports where it is itself a program of the server', async () => {
    const { port } = await startListener('127.0.0.1');
    const argv = [process.execPath, 'dist/bin/exec-server.cjs', 'port-forward', '-E', server.url, '--auto'];
    const program = await client.spawn([...argv, '--json'], { cwd: process.cwd() });
    let printed = '';
    const reading = (async () => {
      for await (const text of program) printed += text;
    })();
    await waitFor('the port', () => printed.includes(`"remotePort":${port}`));
    const local = JSON.parse(printed.split('\n').find((line) => line.includes(`:${port},`))!).port;
    // The server has reported the forwarder's own port when it reports a later one.
    const watched = await client.watchPorts(() => {});
    onTestFinished(() => watched.close());
    const later = await startListener('127.0.0.1');
    await waitFor('the later port', () => printed.includes(`"remotePort":${later.port}`));
    expect(printed).not.toContain(`"remotePort":${local}`);
    await program.kill();
    await reading;
  });
});

describe('-D', () => {
  const run = promisify(execFile);

  /** Fetches with curl, which resolves no name itself. */
  function curl(port: number, url: string, ...flags: string[]) {
    const proxy = ['--proxy', `socks5h://127.0.0.1:${port}`];
    return run('curl', ['--silent', '--show-error', '--noproxy', '', ...proxy, ...flags, url]).then(
      ({ stdout }) => stdout,
      ({ stderr }: { stderr: string }) => stderr,
    );
  }

  async function webServer(host: string): Promise<number> {
    const web = createServer((socket) => {
      socket
        .on('error', () => {})
        .once('data', () => {
          socket.end('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello');
        });
    });
    web.listen(0, host);
    await once(web, 'listening');
    onTestFinished(() => void web.close());
    return (web.address() as AddressInfo).port;
  }

  test('connects curl with addresses and names', async () => {
    const forward = await startForward(user, ['-E', server.url, '-D', '0']);
    const [port] = forward.ports as [number];
    expect(forward.stdout()).toBe(`127.0.0.1:${port} -> SOCKS5\n`);
    const [four, six] = [await webServer('127.0.0.1'), await webServer('::1')];
    expect(await curl(port, `http://127.0.0.1:${four}/`)).toBe('hello');
    expect(await curl(port, `http://localhost:${four}/`)).toBe('hello');
    expect(await curl(port, `http://[::1]:${six}/`)).toBe('hello');
    expect(forward.stderr()).toBe('');
  });

  test('reports what failed, to the client and on stderr', async () => {
    const forward = await startForward(user, ['-E', server.url, '-D', '0']);
    const [port] = forward.ports as [number];
    expect(await curl(port, 'http://db.internal/')).toMatch(/\(2\)|not allowed|97/);
    expect(await curl(port, 'http://127.0.0.1:1/')).toMatch(/\(5\)|refused|97/);
    expect(await curl(port, 'http://127.0.0.1:1/', '--proxy-user', 'me:secret')).toMatch(/\(5\)|refused|97/);
    const http = await run('curl', [
      '--silent',
      '--proxy',
      `http://127.0.0.1:${port}`,
      'http://127.0.0.1:1/',
    ]).catch((error: { code: number }) => error.code);
    expect(http).toBeGreaterThan(0);
    expect(forward.stderr().trimEnd().split('\n')).toEqual([
      expect.stringMatching(/ db\.internal:80: tcp\/connect is not allowed .*--tcp-allowed-hosts$/),
      expect.stringMatching(/ 1: tcp\/connect to 127\.0\.0\.1:1 failed: connection refused|127\.0\.0\.1:1: /),
      expect.stringMatching(/the client does not speak SOCKS 5 but perhaps HTTP; use socks5h/),
    ]);
  });

  test('carries what the client sends together with its request, and each side ends on its own', async () => {
    const peer = await echoPeer();
    const forward = await startForward(user, ['-E', server.url, '-D', '0']);
    const socket = connect({ port: forward.ports[0]!, host: '127.0.0.1', allowHalfOpen: true });
    const request = [5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, peer.port >> 8, peer.port & 255];
    const got = collect(socket);
    socket.end(Buffer.concat([Buffer.from(request), Buffer.from('eager')]));
    expect((await got).toString('latin1')).toBe(`\x05\x00\x05\x00\x00\x01${'\x00'.repeat(6)}eager`);
  });

  test('closes a connection with an invalid handshake, and serves the next client', async () => {
    const peer = await echoPeer();
    const forward = await startForward(user, ['-E', server.url, '-D', '0']);
    const nonsense = [
      '\x00',
      '\x05\x01\x02',
      '\x05\x01\x00\x05\x02\x00\x01aaaaaa',
      '\x05\x01\x00\x05\x01\x00\x09',
    ];
    const answers = nonsense.map(async (bytes) => {
      const socket = connect({ port: forward.ports[0]!, host: '127.0.0.1' });
      const got = collect(socket);
      socket.write(bytes, 'latin1');
      return [...(await got)].slice(0, 4);
    });
    expect(await Promise.all(answers)).toEqual([[], [5, 255], [5, 0, 5, 7], [5, 0, 5, 8]]);
    // A client that leaves in the middle.
    connect({ port: forward.ports[0]!, host: '127.0.0.1' }).end('\x05\x01');
    const port = await webServer('127.0.0.1');
    expect(await curl(forward.ports[0]!, `http://127.0.0.1:${port}/`)).toBe('hello');
    expect(peer.sockets.size).toBe(0);
  });
});

function collect(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  return new Promise((resolve, reject) => {
    socket
      .on('data', (chunk) => chunks.push(chunk))
      .once('end', () => resolve(Buffer.concat(chunks)))
      .once('error', reject);
  });
}
