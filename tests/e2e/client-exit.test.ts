import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startServerProcess, TcpProxy, type TestServer } from '../../src/testing/index.ts';
import { processesWith } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

const folder = mkdtempSync(join(tmpdir(), 'client-exit-'));
const dist = fileURLToPath(new URL('../../dist', import.meta.url));
const servers: TestServer[] = [];
let url: string;

beforeAll(async () => {
  const socket = join(folder, 'server.sock');
  const [tcp] = await Promise.all([
    startServerProcess(),
    startServerProcess(['--listen', `unix://${socket}`]).then((server) => servers.push(server)),
  ]);
  servers.push(tcp);
  url = tcp.url;
});
afterAll(async () => {
  for (const server of servers) await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const TARGETS: Readonly<Record<string, () => string>> = {
  ws: () => JSON.stringify(url),
  unix: () => JSON.stringify(`unix://${join(folder, 'server.sock')}`),
  stdio: () =>
    `stdioCommand({ program: process.execPath, args: ['${dist}/bin/exec-server.cjs', '--listen', 'stdio'] })`,
};

/** Runs a program that has a connected `client`, and returns what it printed and how it exited. Calls back when it prints `started`. */
async function program(target: string, body: string, onStarted: () => unknown = () => {}) {
  const file = join(mkdtempSync(join(folder, 'program-')), 'program.mjs');
  writeFileSync(
    file,
    `import { connect } from '${dist}/client/index.js';
    import { stdioCommand } from '${dist}/client/stdio.js';
    const client = await connect(${target});
    ${body}`,
  );
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const collect = (bytes: Buffer) => {
    output += bytes;
    if (output === 'started\n') onStarted();
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  const [code] = await once(child, 'close');
  return { code, output };
}

/** The timer fires only if something else keeps Node running. */
const UNLESS_IDLE = (statement: string) => `setTimeout(() => { ${statement} }, 50).unref();`;

test.each(Object.keys(TARGETS))(
  'over %s, waits keep a program alive, and a forgotten client does not',
  async (name) => {
    const mark = `600.${process.pid}${name.length}`;
    const { code, output } = await program(
      TARGETS[name]!(),
      `console.log((await client.run('sleep 0.1; echo run')).text.stdout.trim());
    const echo = await client.spawn(['sh', '-c', 'sleep 0.1; echo iterated']);
    for await (const text of echo) console.log(text.trim());
    const slow = await client.spawn(['sleep', '0.1'], { onStdout() {} });
    console.log('waited', (await slow.wait()).exitCode);
    await client.spawn(['sh', '-c', 'sleep 0.1; echo reported'], { onStdout: (text) => console.log(text.trim()) })
      .then((process) => new Promise((resolve) => {
        const end = () => process.state.closed && resolve();
        process.onChange(end);
        // It may have ended before the listener was there.
        end();
      }));
    await client.spawn(['sleep', '${mark}']);
    console.log('end');`,
    );
    expect({ code, output }).toEqual({ code: 0, output: 'run\niterated\nwaited 0\nreported\nend\n' });
    // A server on stdio ends with the program. Others keep the session for a while.
    if (name === 'stdio') await waitFor('the end of the program', () => processesWith(mark).length === 0);
  },
);

test('an awaited close, a listener and an open watch keep a program alive', async () => {
  const { code, output } = await program(
    TARGETS.ws!(),
    `${UNLESS_IDLE(`console.log('idle'); stop();`)}
    const stop = client.onNotification('fs/changed', () => {});
    await client.call('environment/status', null);
    process.once('beforeExit', async () => {
      const watch = await client.files.watch('${folder}');
      ${UNLESS_IDLE(`console.log('watched'); watch.close();`)}
      process.once('beforeExit', async () => {
        client.onNotification('fs/changed', () => {});
        await client.close();
        console.log('closed');
      });
    });`,
  );
  expect({ code, output }).toEqual({ code: 0, output: 'idle\nwatched\nclosed\n' });
});

test('a listener of a closed client does not keep a program alive', async () => {
  const { code, output } = await program(
    TARGETS.ws!(),
    `client.onNotification('fs/changed', () => {});
    await client.close();
    ${UNLESS_IDLE(`console.log('not idle');`)}`,
  );
  expect({ code, output }).toEqual({ code: 0, output: '' });
});

test('an input or a callback that fails does not end a program', async () => {
  const { code, output } = await program(
    TARGETS.ws!(),
    `const { createReadStream } = await import('node:fs');
    const failed = (error) => console.log(error.code ?? error.message);
    await client.run(['cat'], { input: createReadStream('/nowhere') }).catch(failed);
    await client.spawn(['cat'], { input: createReadStream('/nowhere') }).then((cat) => cat.wait()).catch(failed);
    const throws = () => { throw new Error('callback') };
    await client.spawn(['echo', 'x'], { onStdout: throws }).then((echo) => echo.wait()).catch(failed);
    const forgotten = await client.spawn(['echo', 'x'], { onStdout: throws });
    for await (const text of forgotten) console.log(text.trim());
    await client.close();`,
  );
  expect({ code, output }).toEqual({ code: 0, output: 'ENOENT\nENOENT\ncallback\nx\n' });
});

test('a process that nobody waits for does not keep a program alive, even while it produces output', async () => {
  const { code, output } = await program(
    TARGETS.ws!(),
    `await client.spawn(['sh', '-c', 'while :; do echo x; sleep 0.01; done'], { limits: { wallMs: 5000 } });
    ${UNLESS_IDLE(`console.log('not idle');`)}`,
  );
  expect({ code, output }).toEqual({ code: 0, output: '' });
});

test('a lost connection keeps a program alive only while something waits for its recovery', async () => {
  const proxy = await TcpProxy.open(url);
  const target = JSON.stringify({ url: proxy.url, recoveryWindowMs: 'none' });
  const waiting = await program(
    target,
    `await client.run('echo started; sleep 0.5; echo recovered', { onStdout: (text) => console.log(text.trim()) });`,
    () => proxy.drop(),
  );
  expect(waiting).toEqual({ code: 0, output: 'started\nrecovered\n' });
  const idle = await program(
    target,
    `const timer = setInterval(() => {}, 1000);
    client.onStateChange((state) => {
      console.log(state);
      clearInterval(timer);
    });
    console.log('started');`,
    () => proxy.close(),
  );
  expect(idle).toEqual({ code: 0, output: 'started\nrecovering\n' });
});

test('a listener that throws is reported and does not end the program', async () => {
  const { code, output } = await program(
    TARGETS.ws!(),
    `client.onStateChange((state) => { throw new Error('my listener, ' + state) });
    client.onStateChange(async (state) => { throw new Error('my async listener, ' + state) });
    const process = await client.spawn(['cat'], { pipeStdin: true });
    process.onChange(() => { throw new Error('my other listener') });
    await process.closeStdin();
    await process.wait();
    await client.close();
    console.log('end');`,
  );
  expect(code).toBe(0);
  expect(output).toMatch(/^end$/m);
  for (const text of [
    /ExecServerListenerWarning: a listener of client\.onStateChange threw: Error: my listener, closed\n.*program\.mjs/,
    /ExecServerListenerWarning: a listener of client\.onStateChange threw: Error: my async listener, closed/,
    /ExecServerListenerWarning: a listener of process\.onChange threw: Error: my other listener/,
  ])
    expect(output).toMatch(text);
});

test.each(['{}', '{ timeoutMs: 600_000 }'])(
  'an environment does not keep a program alive for a process that no call waits for, with the options %s',
  async (options) => {
    const { code, output } = await program(
      TARGETS.ws!(),
      `import { EnvironmentManager } from '${dist}/environment/index.js';
      const manager = new EnvironmentManager({ default: null, includeLocal: false, environments: [] });
      const environment = manager.add('server', { type: 'websocket', url: ${JSON.stringify(url)} });
      console.log('waited', (await (await environment.spawn(['sleep', '0.1'])).wait()).exitCode);
      const left = await environment.spawn(['sleep', '600'], ${options});
      process.once('exit', () => console.log('running', !left.state.exited));`,
    );
    expect({ code, output }).toEqual({ code: 0, output: 'waited 0\nrunning true\n' });
  },
);

test('the programs of a local environment keep their program alive, and end with its disposal', async () => {
  const mark = `601.${process.pid}`;
  const { code, output } = await program(
    TARGETS.ws!(),
    `import { LocalEnvironment } from '${dist}/environment/index.js';
    const environment = new LocalEnvironment();
    const last = await environment.spawn(['sleep', '0.3']);
    process.once('beforeExit', async () => {
      console.log('ended', last.state.exited);
      await environment.spawn(['sleep', '${mark}']);
      await environment.dispose();
    });`,
  );
  expect({ code, output }).toEqual({ code: 0, output: 'ended true\n' });
  expect(processesWith(mark)).toEqual([]);
});
