import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { StartParams } from '../../src/client/index.ts';
import { type ServerProcess, startServerProcess, type TestClient } from '../../src/testing/index.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { at, managed, ROOT_READ } from '../support/escape-fixture.ts';
import { CLOSED_PROXY } from '../support/proxy-settings.ts';
import { waitFor } from '../support/wait-for.ts';
import { secureWebServer, type WebServer } from '../support/web-servers.ts';

const ACME = 'acme_abcdefghijklmnopqrstuvwx';
const GITHUB = 'ghp_abcdefghijklmnopqrstuvwxyz0123456789';
const INHERITED = 'ghp_9876543210zyxwvutsrqponmlkjihgfedcba';

type Settings = NonNullable<StartParams['networkProxy']>['proxy'];

let certificates: Certificates;
let web: WebServer;
let folder: string;
let home: string;
let server: ServerProcess;
let client: TestClient;

beforeAll(async () => {
  certificates = new Certificates();
  const authority = certificates.authority('upstream');
  const signed = pem(certificates.signedBy(authority, 'server'));
  web = await secureWebServer(signed, ({ url, headers }, response) =>
    response.end(`${url} ${headers.authorization}\n`),
  );
  folder = mkdtempSync(join(tmpdir(), 'credential-masking-'));
});
afterAll(async () => {
  await web.close();
  certificates.remove();
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(async () => {
  home = mkdtempSync(join(folder, 'home-'));
  server = await startServerProcess(['--log-level', 'debug', '--audit-log', join(home, 'audit')], {
    CODEX_HOME: home,
    SSL_CERT_FILE: certificates.path('upstream.pem'),
    GITHUB_TOKEN: INHERITED,
  });
  client = await server.connect();
});
afterEach(() => server.close());

function networkProxy(changes: Partial<Settings> = {}) {
  const acme = {
    env: ['ACME_KEY'],
    patterns: ['acme_[a-z]{24}'],
    url_prefixes: [`${web.url}/v1`],
  };
  const proxy: Settings = {
    ...CLOSED_PROXY,
    domains: { '127.0.0.1': 'allow' },
    credentialMasking: true,
    credentialProviders: { acme },
    ...changes,
  };
  return { proxy };
}

/** The output of a program. */
async function printed(argv: string[], more: object = {}): Promise<string> {
  const processId = `p${client.received.length}`;
  await client.request('process/start', {
    processId,
    argv,
    cwd: 'file:///',
    env: { PATH: process.env.PATH ?? '', ACME_KEY: ACME, GH_TOKEN: GITHUB },
    tty: false,
    networkProxy: networkProxy(),
    ...more,
  });
  return (await client.closedProcess(processId)).text();
}

const FETCH = 'curl -sS -m 20 -H "Authorization: Bearer $ACME_KEY"';

const SYSTEM_READ = ['/usr', '/bin', '/lib', '/lib64'].map((path) => at(path, 'read'));

/** Restricted to the proxy. */
const enforced = {
  sandbox: managed([ROOT_READ], { network: 'enabled' }),
  enforceManagedNetwork: true,
};

describe.each([
  ['a program', {}],
  ['a program in a sandbox', { sandbox: managed([ROOT_READ], { network: 'enabled' }) }],
  ['a program that has only its proxy', enforced],
  ['a program that may read little', { sandbox: managed(SYSTEM_READ, { network: 'enabled' }) }],
])('%s', (_name, more) => {
  test('sends the credential to its destination, and the mask elsewhere', async () => {
    const script = `echo $ACME_KEY; ${FETCH} ${web.url}/v1/x; ${FETCH} ${web.url}/v2`;
    const [mask = '', ...answers] = (await printed(['/bin/sh', '-c', script], more)).split('\n');
    expect(mask).toMatch(/^acme_[a-z]{24}$/);
    expect(mask).not.toBe(ACME);
    expect(answers).toEqual([`/v1/x Bearer ${ACME}`, `/v2 Bearer ${mask}`, '']);
  });
});

test('a sandboxed program cannot change the CA bundle', async () => {
  const script = 'cat "$SSL_CERT_FILE" | head -1; : >> "$SSL_CERT_FILE"';
  const tried = await printed(['/bin/sh', '-c', script], enforced);
  expect(tried).toMatch(/^-----BEGIN CERTIFICATE-----\n.*Read-only file system\n$/);
});

test('a program that can write the CA bundle cannot make others trust it', async () => {
  await start('one');
  const sandbox = managed([ROOT_READ, at(home, 'write')], { network: 'enabled' });
  const [folder] = readdirSync(join(home, 'proxy'));
  const script = `cd ${home}; mv proxy moved && mkdir -p proxy/${folder} && echo evil > proxy/${folder}/ca-bundle.pem`;
  const shown = ['/bin/sh', '-c', 'cat "$SSL_CERT_FILE"'];
  expect(await printed(['/bin/sh', '-c', script], { sandbox })).toMatch(/^mv: .* busy\n$/);
  expect(await printed(shown)).toMatch(/^-----BEGIN CERTIFICATE-----\n/);
  // Without masks it need not read the file, which is then like any other.
  expect(await printed(['/bin/sh', '-c', script], { sandbox, networkProxy: null })).toBe('');
  await expect(printed(shown)).rejects.toThrow('was changed or removed by another process');
});

describe('the environment contains no credential', () => {
  test.each([
    ['of a program without a shell', ['/usr/bin/env']],
    ['of a shell', ['/bin/sh', '-c', 'env']],
    ['of a login shell', ['/bin/bash', '-lc', 'env']],
    ['of any process that it can see', ['/bin/sh', '-c', 'cat /proc/[0-9]*/environ | tr "\\0" "\\n"']],
  ])('%s', async (_name, argv) => {
    const env = await printed(argv);
    expect(env).toMatch(/^ACME_KEY=acme_[a-z]{24}$/m);
    expect(env).toMatch(/^GH_TOKEN=ghp_masked/m);
    for (const credential of [ACME, GITHUB]) expect(env).not.toContain(credential);
  });

  test('of any process inside the sandbox', async () => {
    const env = await printed(['/bin/sh', '-c', 'cat /proc/[0-9]*/environ | tr "\\0" "\\n"'], enforced);
    expect(env).toMatch(/^ACME_KEY=acme_[a-z]{24}$/m);
    for (const credential of [ACME, GITHUB]) expect(env).not.toContain(credential);
  });

  test('that the server passes on from its own', async () => {
    const envPolicy = { inherit: 'all', ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] };
    const env = await printed(['/usr/bin/env'], { envPolicy, env: {} });
    expect(env).toMatch(/^GITHUB_TOKEN=ghp_masked/m);
    expect(env).not.toContain(INHERITED);
  });

  test('of a login shell whose state is captured: it logs in separately', async () => {
    const own = join(home, 'user');
    mkdirSync(own);
    writeFileSync(join(own, '.bash_profile'), 'env >> "$HOME/seen"\n');
    const shellSnapshot = { scopeId: 's', shell: { name: 'bash', path: '/bin/bash' } };
    const env = { PATH: '/usr/bin:/bin', HOME: own, ACME_KEY: ACME };
    const output = await printed(['/bin/bash', '-lc', 'env'], { env, shellSnapshot });
    const seen = readFileSync(join(own, 'seen'), 'utf8');
    for (const text of [output, seen]) {
      expect(text).toMatch(/^ACME_KEY=acme_[a-z]{24}$/m);
      expect(text).not.toContain(ACME);
    }
  });
});

test('logs, audit records, messages and errors contain no credential', async () => {
  await printed([
    '/bin/sh',
    '-c',
    `${FETCH} ${web.url}/v1/x >/dev/null; ${FETCH} https://other.test/ || true`,
  ]);
  await printed(['/nowhere'], {}).catch(() => {});
  await client.request('process/list', {});
  expect(client.received.filter(({ method }) => method === 'network/policyDecision')).toHaveLength(2);
  const everything = [
    JSON.stringify(client.received),
    server.stderr(),
    readFileSync(join(home, 'audit'), 'utf8'),
  ];
  for (const text of everything) {
    expect(text).not.toContain(ACME);
    expect(text).not.toContain(GITHUB);
  }
});

describe('is not started when credentials cannot be masked', () => {
  test.each([
    [{ credentialProviders: { acme: {} } }, 'credentialProviders["acme"]: no environment variable is named'],
    [
      { credentialProviders: { acme: { env: ['A'], patterns: ['('], url_prefixes: ['a.test'] } } },
      'credentialProviders["acme"]: a pattern cannot be used',
    ],
  ])('%j', async (changes, message) => {
    await expect(printed(['/bin/true'], { networkProxy: networkProxy(changes) })).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining(message),
    });
    await waitFor('the file to go', () => !existsSync(join(home, 'proxy')));
  });

  test('because the CA bundle cannot be written', async () => {
    writeFileSync(join(home, 'proxy'), '');
    await expect(printed(['/bin/true'])).rejects.toMatchObject({
      message: expect.stringMatching(/^networkProxy: credentialMasking: .*(?:EEXIST|ENOTDIR)/),
    });
  });
});

/** Starts a program that keeps running. */
function start(processId: string, on = client) {
  return on.request('process/start', {
    processId,
    argv: ['/bin/sh', '-c', 'echo up; cat'],
    cwd: 'file:///',
    env: {},
    tty: false,
    pipeStdin: true,
    networkProxy: networkProxy(),
  });
}

test('removes the files of a killed server with the next program, and keeps those of a running one', async () => {
  const next = await startServerProcess([], {
    CODEX_HOME: home,
    SSL_CERT_FILE: certificates.path('upstream.pem'),
  });
  try {
    const other = await next.connect();
    const folders = () => readdirSync(join(home, 'proxy'));
    await start('one');
    const [first = ''] = folders();
    await start('one', other);
    expect(folders()).toHaveLength(2);
    await other.request('process/terminate', { processId: 'one' });
    await waitFor('the second folder to go', () => folders().length === 1);
    expect(folders()).toEqual([first]);
    server.process.kill('SIGKILL');
    await once(server.process, 'exit');
    expect(folders()).toEqual([first]);
    await start('two', other);
    expect(folders()).toHaveLength(1);
    expect(folders()).not.toEqual([first]);
  } finally {
    await next.close();
  }
});

test('leaves nothing behind after a program or a server ends', async () => {
  await start('one');
  expect(readdirSync(join(home, 'proxy'))).toHaveLength(1);
  await client.request('process/terminate', { processId: 'one' });
  await waitFor('the file to go', () => !existsSync(join(home, 'proxy')));
  await start('two');
  expect(readdirSync(join(home, 'proxy'))).toHaveLength(1);
  await server.close();
  expect(existsSync(join(home, 'proxy')) ? readdirSync(join(home, 'proxy')) : []).toEqual([]);
});
