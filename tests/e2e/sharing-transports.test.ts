import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { ExecServer } from '../../src/server/exec-server.ts';
import { createInMemoryServer } from '../../src/server/in-memory.ts';
import { overStdio } from '../support/connected-clients.ts';
import { rest, shortEvent } from '../support/process-recorder.ts';
import { shell } from '../support/programs.ts';
import { startExecutorProgram, TestRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';

/** Returns a function that connects further clients to one server. */
type Open = () => Promise<() => Promise<ExecServerClient>>;

async function listening(address: Parameters<ExecServer['listen']>[0]): Promise<string> {
  const server = new ExecServer({ ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0 });
  onTestFinished(() => server.close());
  return server.listen(address);
}

const websocket: Open = async () => {
  const url = await listening({ kind: 'websocket', secure: false, host: '127.0.0.1', port: 0 });
  return () => ExecServerClient.connect({ url });
};

const unixSocket: Open = async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sharing-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const url = await listening({ kind: 'unix', path: join(folder, 'socket') });
  return () => ExecServerClient.connect({ url });
};

const inMemory: Open = async () => {
  const server = createInMemoryServer();
  onTestFinished(() => server.close());
  return () => ExecServerClient.connect({ open: async () => server.connect(), resumable: true });
};

const relay: Open = async () => {
  const service = await TestRelay.open();
  onTestFinished(() => service.close());
  const executor = startExecutorProgram(service);
  onTestFinished(() => executor.stop());
  return () => service.connect();
};

/** A server over stdio has one client. */
const stdio: Open = async () => {
  const { client, close } = await overStdio();
  onTestFinished(close);
  return async () => client;
};

test.each<[string, Open]>([
  ['a websocket', websocket],
  ['a unix socket', unixSocket],
  ['memory', inMemory],
  ['a relay', relay],
  ['stdio', stdio],
])('a process and its screen are shared over %s', async (name, open) => {
  const connect = await open();
  const [owner, other] = [await connect(), await connect()];
  if (owner !== other) onTestFinished(() => Promise.all([owner.close(), other.close()]).then(() => {}));
  const script = 'echo ready; while read line; do echo "got $line"; done';
  const own = await owner.backend.start({
    ...shell('p', script),
    pipeStdin: true,
    name: 'job',
    lifetime: { type: 'detached' },
  });
  await waitFor('the first output', () => own.revision > 0);
  const [listed] = await other.processes.list();
  expect(listed).toMatchObject({ ref: own.ref, name: 'job', lifetime: 'detached', state: 'running' });
  expect(listed!.owner).toBe(name === 'a relay' ? 'relay' : 'local');
  const attached = await other.attach('job', { takeOver: true });
  await attached.write('this\n');
  await attached.closeStdin();
  const expected = [
    [1, 'stdout', 'ready\n'],
    [2, 'stdout', 'got this\n'],
    [3, 'exited', 0],
    [4, 'closed'],
  ];
  expect((await rest(attached.events())).map(shortEvent)).toEqual(expected);
  expect((await rest(own.events())).map(shortEvent)).toEqual(expected);

  const drawing = 'printf "\\033[2J\\033[3;5Hdrawn"; read go; printf " and more"';
  const terminal = await owner.spawn(['sh', '-c', drawing], { tty: { rows: 10, cols: 40 } });
  await waitFor('the drawing', () => terminal.revision > 0);
  const watched = await other.attach(terminal.ref!, { screen: true });
  await terminal.write('\n');
  const [screen, ...after] = await rest(watched.events());
  expect(screen).toMatchObject({ type: 'screen', screen: { rows: 10, cols: 40, exact: true } });
  const drawn = screen?.type === 'screen' ? screen.screen : null;
  expect(drawn?.text).toMatch(/^\n\n {4}drawn\n+$/);
  const output = after.map((event) => (event.type === 'output' ? String(event.bytes) : ''));
  expect(output.join('')).toContain(' and more');
  expect((await owner.call('process/screen', { processId: terminal.ref! })).text).toContain('and more');
});
