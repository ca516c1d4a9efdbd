import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { TcpProxy } from '../../src/testing/index.ts';
import { Certificates } from '../support/certificates.ts';
import { collect } from '../support/collect.ts';
import { CommandUser } from '../support/private-server.ts';
import { ENVIRONMENT, startExecutorProgram, TestRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
const certificates = new Certificates();
const at = (name: string) => join(user.workspace.path, name);
let plain: string;
let secure: string;
let authority: string;

beforeAll(async () => {
  const ca = certificates.authority('authority');
  const { cert, key } = certificates.signedBy(ca, 'server');
  authority = ca.cert;
  [plain, secure] = (await Promise.all([
    firstLine(user.start(['serve'])),
    firstLine(user.start(['serve', '-p', '0', '--tls-cert', cert, '--tls-key', key])),
  ])) as [string, string];
});
afterAll(async () => {
  await user.close();
  certificates.remove();
});

/** Prints the numbers up to 3000, waits after 1000 until a file is there, and creates a second one at the end. */
const COUNT = (file: string) =>
  `i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; [ $i -eq 1000 ] && while [ ! -e ${file} ]; do sleep 0.02; done; done; : > ${file}.done; exit 5`;
const NUMBERS = `${Array.from({ length: 3000 }, (_, index) => index + 1).join('\n')}\n`;

/** Runs the program over a link. `lose` is called when a third of the output is there, and `restore` when the program has ended. */
async function outcomeOver(
  name: string,
  { flags, env = {} }: { readonly flags: readonly string[]; readonly env?: Readonly<Record<string, string>> },
  { lose, restore }: { lose(stderr: () => string): Promise<void> | void; restore(): void },
) {
  const file = at(name);
  const started = user.start(['run', ...flags, '--', 'sh', '-c', COUNT(file)], env);
  const printed = collect(started);
  await waitFor('the first part', () => printed.stdout.endsWith('\n1000\n'));
  await lose(() => printed.stderr);
  writeFileSync(file, '');
  await waitFor('the end of the program', () => existsSync(`${file}.done`));
  expect(printed.stdout.endsWith('\n1000\n')).toBe(true);
  restore();
  const { code, stdout } = await started.outcome;
  return { code, isComplete: stdout === NUMBERS };
}

const isReconnecting = (stderr: () => string) =>
  waitFor('the note', () => stderr().includes('reconnecting')).then(() => {});

test('a link that is silent, and then cut, loses nothing', async () => {
  const proxy = await TcpProxy.open(plain);
  onTestFinished(() => proxy.close());
  const ended = await outcomeOver(
    'silent',
    { flags: ['-E', proxy.url] },
    { lose: () => proxy.setStalled(true), restore: () => proxy.drop() },
  );
  expect(ended).toEqual({ code: 5, isComplete: true });
});

test('a link that is silent for a while loses nothing', async () => {
  const proxy = await TcpProxy.open(plain);
  onTestFinished(() => proxy.close());
  const ended = await outcomeOver(
    'paused',
    { flags: ['-E', proxy.url] },
    { lose: () => proxy.setStalled(true), restore: () => proxy.setStalled(false) },
  );
  expect(ended).toEqual({ code: 5, isComplete: true });
});

test('a link with TLS that is cut loses nothing', async () => {
  const proxy = await TcpProxy.open(secure);
  onTestFinished(() => proxy.close());
  const lose = (stderr: () => string) => {
    proxy.interrupt();
    return isReconnecting(stderr);
  };
  const way = { flags: ['-E', proxy.url.replace('ws:', 'wss:')], env: { SSL_CERT_FILE: authority } };
  expect(await outcomeOver('secure', way, { lose, restore: () => proxy.restore() })).toEqual({
    ...{ code: 5, isComplete: true },
  });
});

test('a link to a relay that is cut on either side loses nothing', async () => {
  const relay = await TestRelay.open();
  const executor = startExecutorProgram(relay);
  onTestFinished(async () => {
    await executor.stop();
    await relay.close();
  });
  await waitFor('the executor', () => executor.stderr().includes('connected to'));
  user.workspace.file('relay.token', relay.token('harness'));
  const add = ['env', 'add', 'behind', relay.harnessUrl, '--token-file', 'relay.token'];
  expect(await user.run([...add, '--environment-id', ENVIRONMENT])).toMatchObject({ code: 0 });
  const way = { flags: ['-E', 'behind'] };
  for (const link of [relay.harnessLink, relay.executorLink]) {
    const losing = { lose: () => link.interrupt(), restore: () => link.restore() };
    const name = `relay-${link === relay.harnessLink}`;
    expect(await outcomeOver(name, way, losing)).toEqual({ code: 5, isComplete: true });
  }
});
