import { existsSync, lstatSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SandboxRequest } from '../../src/protocol/sandbox.ts';
import {
  at,
  EscapeFixture,
  type EscapeServer,
  managed,
  ROOT_READ,
  SECRET,
  SERVER_USERS,
  UNTOUCHED,
  uri,
} from '../support/escape-fixture.ts';

type Entry = Parameters<typeof managed>[0][number];
const special = (kind: 'root' | 'tmpdir' | 'slash_tmp' | 'project_roots', subpath?: string): Entry => ({
  path: {
    type: 'special',
    value: kind === 'project_roots' ? { kind, ...(subpath && { subpath }) } : { kind },
  },
  access: 'write',
});
const unrestricted = { type: 'managed', file_system: { type: 'unrestricted' }, network: 'enabled' } as const;

/** Sandboxes with which requests try to get more access than the floor allows. */
const ASKED: readonly (readonly [
  string,
  (fixture: EscapeFixture) => SandboxRequest | null,
  NodeJS.Dict<string>?,
])[] = [
  ['nothing', () => null],
  ['no sandbox', () => ({ permissions: { type: 'disabled' }, windowsSandboxLevel: 'disabled' })],
  [
    'an external sandbox',
    () => ({ permissions: { type: 'external', network: 'enabled' }, windowsSandboxLevel: 'disabled' }),
  ],
  ['all files', () => ({ permissions: unrestricted, windowsSandboxLevel: 'disabled' })],
  [
    'an override',
    () => ({
      permissions: { type: 'disabled' },
      windowsSandboxLevel: 'disabled',
      sandboxOverride: 'bypassSandboxFirstAttempt',
    }),
  ],
  ['the whole disk', () => managed([special('root')], { network: 'enabled' })],
  [
    'the root as a workspace',
    () =>
      managed([ROOT_READ, special('project_roots')], { workspaceRoots: ['file:///'], network: 'enabled' }),
  ],
  [
    'other workspaces',
    (fixture) =>
      managed([ROOT_READ, special('project_roots')], {
        workspaceRoots: [uri(fixture.outside), uri(join(fixture.path, 'secrets'))],
      }),
  ],
  [
    'another context',
    (fixture) =>
      managed([ROOT_READ, special('project_roots')], {
        policyContext: { cwd: 'file:///', workspaceRoots: [uri(fixture.path)] },
      }),
  ],
  [
    'a way out of a workspace',
    (fixture) =>
      managed([ROOT_READ, special('project_roots', '../outside')], {
        workspaceRoots: [uri(fixture.workspace)],
      }),
  ],
  [
    'a workspace with dots',
    (fixture) =>
      managed([ROOT_READ, special('project_roots')], {
        workspaceRoots: [
          `${uri(fixture.workspace)}/../outside`,
          `${uri(fixture.workspace)}/%2e%2e/outside`,
          `${uri(fixture.workspace)}//..//outside/.`,
        ],
      }),
  ],
  [
    'a link in the workspace',
    (fixture) => managed([ROOT_READ, at(join(fixture.workspace, 'link'), 'write')]),
  ],
  [
    'a link in the workspace, and the workspace',
    (fixture) =>
      managed([ROOT_READ, at(fixture.workspace, 'write'), at(join(fixture.workspace, 'link'), 'write')]),
  ],
  [
    'a link beside the workspace',
    (fixture) =>
      managed([
        ROOT_READ,
        at(join(fixture.path, 'alias/deep'), 'write'),
        at(join(fixture.path, 'alias'), 'write'),
      ]),
  ],
  [
    'what is denied, by a link',
    (fixture) => managed([ROOT_READ, at(join(fixture.path, 'alias/deep'), 'read')]),
  ],
  [
    'what is denied, by the root of a process',
    (fixture) =>
      managed([
        ROOT_READ,
        at(`/proc/self/root${fixture.path}/secrets/deep`, 'read'),
        at(`/proc/self/root${fixture.outside}`, 'write'),
      ]),
  ],
  [
    'what is denied, by its name',
    (fixture) => managed([ROOT_READ, at(join(fixture.path, 'secrets/deep'), 'write')]),
  ],
  ['the root for temporary files', () => managed([ROOT_READ, special('tmpdir')]), { TMPDIR: '/' }],
  [
    'temporary files in a link',
    (fixture) => managed([ROOT_READ, special('tmpdir'), at(fixture.workspace, 'write')]),
    { TMPDIR: 'W/link' },
  ],
  ['the directory for temporary files', () => managed([ROOT_READ, special('slash_tmp')])],
  [
    'a named sandbox',
    (fixture) => ({
      type: 'workspaceWrite',
      writableRoots: [uri(fixture.outside), 'file:///'],
      networkAccess: true,
    }),
  ],
  [
    'the protected names',
    (fixture) =>
      managed([
        ROOT_READ,
        at(fixture.workspace, 'write'),
        at(join(fixture.workspace, '.git'), 'write'),
        at(join(fixture.workspace, '.codex'), 'write'),
      ]),
  ],
];

describe.each(SERVER_USERS)('a server run by %s enforces its floor for requests with', (user) => {
  let fixture: EscapeFixture;
  let server: EscapeServer;
  let web: Server;
  let visits = 0;

  beforeAll(async () => {
    fixture = new EscapeFixture(user);
    fixture.file('outside/file');
    fixture.file('secrets/deep/file', SECRET);
    fixture.file('workspace/.git/config');
    symlinkSync(fixture.outside, join(fixture.workspace, 'link'));
    symlinkSync('secrets', join(fixture.path, 'alias'));
    web = createServer((_request, response) => {
      visits++;
      response.end();
    });
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
    const floor = join(fixture.path, 'floor.json');
    const policy = fixture.profile(at(join(fixture.path, 'secrets'), 'deny'));
    writeFileSync(floor, JSON.stringify(policy));
    server = await fixture.serve(['--min-sandbox', floor]);
  });
  afterAll(async () => {
    await new Promise((resolve) => web.close(resolve));
    await fixture.end();
  });

  const port = () => (web.address() as AddressInfo).port;

  function expectUnharmed(shown: string): void {
    expect(shown).not.toContain(SECRET);
    expect(shown).not.toContain(Buffer.from(SECRET).toString('base64'));
    expect(fixture.names('outside')).toEqual(['file']);
    expect(fixture.read('outside/file')).toBe(UNTOUCHED);
    expect(fixture.names('secrets/deep')).toEqual(['file']);
    expect(fixture.names('workspace/.git')).toEqual(['config']);
    expect(fixture.read('workspace/.git/config')).toBe(UNTOUCHED);
    expect(existsSync(join(fixture.workspace, '.codex'))).toBe(false);
    expect(visits).toBe(0);
  }

  const script = () =>
    [
      `cd ${fixture.path}`,
      'for path in outside/file outside/new workspace/link/new secrets/deep/new alias/deep/new; do echo escaped > $path; done',
      'for path in workspace/.git/config workspace/.git/new workspace/.codex/new; do echo escaped > $path; done',
      'mkdir workspace/.codex; cat secrets/deep/file alias/deep/file',
      `exec 3<>/dev/tcp/127.0.0.1/${port()} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3`,
      'true',
    ].join('\n');

  describe.each(ASKED.map(([what, asked, environment = {}]) => ({ what, asked, environment })))(
    '$what',
    ({ asked, environment }) => {
      const env = () =>
        Object.fromEntries(
          Object.entries(environment).map(([name, value]) => [name, value!.replace('W', fixture.workspace)]),
        );

      test('in a program', async () => {
        const argv = ['/bin/bash', '-c', script()];
        const params = {
          processId: `a${Math.random()}`,
          argv,
          cwd: 'file:///',
          env: { PATH: '/usr/bin:/bin', ...env() },
          tty: false,
          sandbox: asked(fixture),
        };
        const started = await server.outcome('process/start', params);
        const isRunning = typeof started === 'object';
        const ran = isRunning ? await server.ended(params.processId) : null;
        expectUnharmed(`${ran?.stdout}${ran?.stderr}`);
      });

      test('for files', async () => {
        const sandbox = asked(fixture);
        const answers: unknown[] = [];
        for (const path of [
          'outside/file',
          'outside/new',
          'workspace/link/new',
          'workspace/.git/new',
          'workspace/.codex/new',
          'alias/deep/new',
        ]) {
          const params = { path: uri(join(fixture.path, path)), dataBase64: 'eA==', sandbox };
          answers.push(await server.outcome('fs/writeFile', params));
        }
        for (const path of ['secrets/deep/file', 'alias/deep/file']) {
          answers.push(await server.outcome('fs/readFile', { path: uri(join(fixture.path, path)), sandbox }));
        }
        answers.push(
          await server.outcome('fs/search', { path: uri(fixture.path), pattern: 'secret.of', sandbox }),
        );
        answers.push(
          await server.outcome('fs/remove', { path: uri(fixture.outside), recursive: true, sandbox }),
        );
        expectUnharmed(JSON.stringify(answers));
      });
    },
  );

  test('a directory that another program keeps replacing with a link', async () => {
    fixture.directory('workspace/place');
    const flip = `import ctypes
exchange = ctypes.CDLL(None).renameat2
print('up', flush=True)
while True: exchange(-100, b'place', -100, b'link', 2)`;
    const id = await server.start(['/usr/bin/python3', '-c', flip], fixture.profile(), {
      cwd: fixture.workspace,
    });
    await server.said(id, 'up');
    const place = join(fixture.workspace, 'place');
    const sandbox = managed([ROOT_READ, at(place, 'write')]);
    for (let round = 0; round < 30; round++) {
      const processId = `flip-${round}`;
      const argv = ['/bin/sh', '-c', `echo escaped > ${fixture.outside}/new`];
      const started = await server.outcome('process/start', {
        processId,
        argv,
        cwd: 'file:///',
        env: {},
        tty: false,
        sandbox,
      });
      if (typeof started === 'object') await server.ended(processId);
      const params = { path: uri(join(place, 'new')), dataBase64: 'eA==', sandbox };
      await server.outcome('fs/writeFile', params);
    }
    await server.terminate(id);
    // Without the concurrent replacement the same request succeeds.
    const still = lstatSync(place).isDirectory() ? place : join(fixture.workspace, 'link');
    const params = { path: uri(join(still, 'new')), dataBase64: 'eA==' };
    const allowed = managed([ROOT_READ, at(still, 'write')]);
    expect(await server.outcome('fs/writeFile', { ...params, sandbox: allowed })).toBeTypeOf('object');
    // bwrap creates mount points before the launcher can detect that they are in the wrong directory. They stay empty.
    for (const name of ['.agents', '.aws', '.codex', '.git']) {
      const made = join(fixture.outside, name);
      if (existsSync(made)) rmdirSync(made);
    }
    expectUnharmed('');
  });

  test('the first dialect', async () => {
    const params = {
      processId: 'legacy',
      argv: ['/bin/bash', '-c', script()],
      cwd: '/',
      env: { PATH: '/usr/bin:/bin' },
      tty: false,
    };
    const answer = await server.outcome('command/exec', params);
    await server.client.waitFor(({ method }) => method === 'command/exec/exited');
    expectUnharmed(JSON.stringify([answer, server.client.received]));
  });

  test.each(['direct', 'prepared'])('the %s form', async (form) => {
    const program = { argv: ['/bin/bash', '-c', script()], cwd: 'file:///', env: { PATH: '/usr/bin:/bin' } };
    const io = { type: 'pipe', stdin: 'closed' };
    const start =
      form === 'direct'
        ? { direct: { processId: form, ...program, io } }
        : { prepared: { processId: form, request: program, io } };
    expect(await server.outcome('process/start', start)).toMatchObject({ processId: form });
    const { stdout, stderr } = await server.ended(form);
    expectUnharmed(stdout + stderr);
  });

  test('a web server', async () => {
    const url = `http://127.0.0.1:${port()}/`;
    for (const streamResponse of [false, true]) {
      await server.outcome('http/request', {
        requestId: `h${streamResponse}`,
        method: 'GET',
        url,
        headers: [],
        streamResponse,
      });
    }
    expectUnharmed('');
  });

  test('a file handle', async () => {
    const open = await server.outcome('fs/open', {
      path: uri(join(fixture.outside, 'file')),
      mode: 'write',
      handleId: 'h',
    });
    await server.outcome('fs/writeBlock', { handleId: 'h', offset: 0, dataBase64: 'eA==' });
    const secret = await server.outcome('fs/open', {
      path: uri(join(fixture.path, 'secrets/deep/file')),
      mode: 'read',
      handleId: 's',
    });
    const block = await server.outcome('fs/readBlock', { handleId: 's', offset: 0, length: 100 });
    expectUnharmed(JSON.stringify([open, secret, block]));
  });

  test('the configuration of what is denied', async () => {
    const cwd = uri(join(fixture.path, 'secrets/deep'));
    const config = await server.outcome('environmentConfig/read', {
      cwd,
      configPaths: [['model']],
      requirementsPaths: [],
    });
    const roots = await server.outcome('capabilityRoots/discoverV1', { roots: [{ id: 'r', path: cwd }] });
    expectUnharmed(JSON.stringify([config, roots]));
  });
});

describe.each(SERVER_USERS)('policies of a server run by %s', (user) => {
  let fixture: EscapeFixture;
  let server: EscapeServer;
  beforeAll(async () => {
    fixture = new EscapeFixture(user);
    fixture.file('outside/file');
    server = await fixture.serve();
  });
  afterAll(() => fixture.end());

  test.each<readonly [string, (fixture: EscapeFixture) => SandboxRequest]>([
    [
      'many entries',
      (s) => managed(Array.from({ length: 20_000 }, (_, i) => at(`${s.workspace}/${i}`, 'deny'))),
    ],
    [
      'many patterns',
      (s) =>
        managed([
          ROOT_READ,
          ...Array.from(
            { length: 2_000 },
            (_, i): Entry => ({
              path: { type: 'glob_pattern', pattern: `${s.workspace}/*.${i}` },
              access: 'deny',
            }),
          ),
        ]),
    ],
    [
      'a pattern for the whole disk',
      () => managed([ROOT_READ, { path: { type: 'glob_pattern', pattern: '/**/*.key' }, access: 'deny' }]),
    ],
    [
      'a pattern with dots',
      (s) =>
        managed([
          ROOT_READ,
          { path: { type: 'glob_pattern', pattern: `${s.workspace}/../outside/*` }, access: 'deny' },
        ]),
    ],
    [
      'a path with a NUL',
      (s) =>
        managed([ROOT_READ, { path: { type: 'path', path: `${uri(s.workspace)}%00` }, access: 'write' }]),
    ],
    [
      'a subpath that leads out',
      (s) =>
        managed([ROOT_READ, special('project_roots', '../outside')], { workspaceRoots: [uri(s.workspace)] }),
    ],
    ['a path of this kernel to deny', () => managed([ROOT_READ, at('/proc/self/environ', 'deny')])],
  ])('with %s run nothing', async (_what, asked) => {
    const params = {
      processId: `q${Math.random()}`,
      argv: ['/bin/sh', '-c', `echo escaped > ${fixture.outside}/file`],
      cwd: 'file:///',
      env: {},
      tty: false,
      sandbox: asked(fixture),
    };
    expect(await server.outcome('process/start', params)).toMatch(/^refused/);
    const path = uri(join(fixture.outside, 'file'));
    expect(
      await server.outcome('fs/writeFile', { path, dataBase64: 'eA==', sandbox: asked(fixture) }),
    ).toMatch(/^refused/);
    expect(fixture.read('outside/file')).toBe(UNTOUCHED);
  });

  test('a .git that was a link before the start allows nothing', async () => {
    fixture.file('elsewhere/config');
    symlinkSync(join(fixture.path, 'elsewhere'), join(fixture.workspace, '.git'));
    const sandbox = fixture.profile(at(join(fixture.path, 'elsewhere'), 'write'));
    const params = {
      processId: 'linked',
      argv: ['/bin/sh', '-c', 'echo escaped > .git/config; rm .git'],
      cwd: uri(fixture.workspace),
      env: {},
      tty: false,
      sandbox,
    };
    expect(await server.outcome('process/start', params)).toMatch(/^refused/);
    expect(fixture.read('workspace/.git/config')).toBe(UNTOUCHED);
  });
});
