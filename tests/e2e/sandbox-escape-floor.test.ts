import { existsSync, lstatSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SandboxRequest } from '../../src/protocol/sandbox.ts';
import {
  at,
  EscapeScene,
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

/** What requests ask for to get below the floor. */
const ASKED: readonly (readonly [
  string,
  (scene: EscapeScene) => SandboxRequest | null,
  NodeJS.Dict<string>?,
])[] = [
  ['nothing', () => null],
  ['no sandbox', () => ({ permissions: { type: 'disabled' }, windowsSandboxLevel: 'disabled' })],
  [
    'that of somebody else',
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
    (scene) =>
      managed([ROOT_READ, special('project_roots')], {
        workspaceRoots: [uri(scene.outside), uri(join(scene.path, 'secrets'))],
      }),
  ],
  [
    'another context',
    (scene) =>
      managed([ROOT_READ, special('project_roots')], {
        policyContext: { cwd: 'file:///', workspaceRoots: [uri(scene.path)] },
      }),
  ],
  [
    'a way out of a workspace',
    (scene) =>
      managed([ROOT_READ, special('project_roots', '../outside')], {
        workspaceRoots: [uri(scene.workspace)],
      }),
  ],
  [
    'a workspace with dots',
    (scene) =>
      managed([ROOT_READ, special('project_roots')], {
        workspaceRoots: [
          `${uri(scene.workspace)}/../outside`,
          `${uri(scene.workspace)}/%2e%2e/outside`,
          `${uri(scene.workspace)}//..//outside/.`,
        ],
      }),
  ],
  ['a link in the workspace', (scene) => managed([ROOT_READ, at(join(scene.workspace, 'link'), 'write')])],
  [
    'a link in the workspace, and the workspace',
    (scene) => managed([ROOT_READ, at(scene.workspace, 'write'), at(join(scene.workspace, 'link'), 'write')]),
  ],
  [
    'a link beside the workspace',
    (scene) =>
      managed([
        ROOT_READ,
        at(join(scene.path, 'alias/deep'), 'write'),
        at(join(scene.path, 'alias'), 'write'),
      ]),
  ],
  ['what is denied, by a link', (scene) => managed([ROOT_READ, at(join(scene.path, 'alias/deep'), 'read')])],
  [
    'what is denied, by the root of a process',
    (scene) =>
      managed([
        ROOT_READ,
        at(`/proc/self/root${scene.path}/secrets/deep`, 'read'),
        at(`/proc/self/root${scene.outside}`, 'write'),
      ]),
  ],
  [
    'what is denied, by its name',
    (scene) => managed([ROOT_READ, at(join(scene.path, 'secrets/deep'), 'write')]),
  ],
  ['the root for temporary files', () => managed([ROOT_READ, special('tmpdir')]), { TMPDIR: '/' }],
  [
    'temporary files in a link',
    (scene) => managed([ROOT_READ, special('tmpdir'), at(scene.workspace, 'write')]),
    { TMPDIR: 'W/link' },
  ],
  ['the directory for temporary files', () => managed([ROOT_READ, special('slash_tmp')])],
  [
    'a classic sandbox',
    (scene) => ({
      type: 'workspaceWrite',
      writableRoots: [uri(scene.outside), 'file:///'],
      networkAccess: true,
    }),
  ],
  [
    'the protected names',
    (scene) =>
      managed([
        ROOT_READ,
        at(scene.workspace, 'write'),
        at(join(scene.workspace, '.git'), 'write'),
        at(join(scene.workspace, '.codex'), 'write'),
      ]),
  ],
];

describe.each(SERVER_USERS)('below the floor of a server run by %s gets nobody who asks for', (user) => {
  let scene: EscapeScene;
  let server: EscapeServer;
  let web: Server;
  let visits = 0;

  beforeAll(async () => {
    scene = new EscapeScene(user);
    scene.file('outside/file');
    scene.file('secrets/deep/file', SECRET);
    scene.file('workspace/.git/config');
    symlinkSync(scene.outside, join(scene.workspace, 'link'));
    symlinkSync('secrets', join(scene.path, 'alias'));
    web = createServer((_request, response) => {
      visits++;
      response.end();
    });
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
    const floor = join(scene.path, 'floor.json');
    const policy = scene.profile(at(join(scene.path, 'secrets'), 'deny'));
    writeFileSync(floor, JSON.stringify(policy));
    server = await scene.serve(['--min-sandbox', floor]);
  });
  afterAll(async () => {
    await new Promise((resolve) => web.close(resolve));
    await scene.end();
  });

  const port = () => (web.address() as AddressInfo).port;

  function expectUnharmed(shown: string): void {
    expect(shown).not.toContain(SECRET);
    expect(shown).not.toContain(Buffer.from(SECRET).toString('base64'));
    expect(scene.names('outside')).toEqual(['file']);
    expect(scene.read('outside/file')).toBe(UNTOUCHED);
    expect(scene.names('secrets/deep')).toEqual(['file']);
    expect(scene.names('workspace/.git')).toEqual(['config']);
    expect(scene.read('workspace/.git/config')).toBe(UNTOUCHED);
    expect(existsSync(join(scene.workspace, '.codex'))).toBe(false);
    expect(visits).toBe(0);
  }

  const script = () =>
    [
      `cd ${scene.path}`,
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
          Object.entries(environment).map(([name, value]) => [name, value!.replace('W', scene.workspace)]),
        );

      test('in a program', async () => {
        const argv = ['/bin/bash', '-c', script()];
        const params = {
          processId: `a${Math.random()}`,
          argv,
          cwd: 'file:///',
          env: { PATH: '/usr/bin:/bin', ...env() },
          tty: false,
          sandbox: asked(scene),
        };
        const started = await server.outcome('process/start', params);
        const isRunning = typeof started === 'object';
        const ran = isRunning ? await server.ended(params.processId) : null;
        expectUnharmed(`${ran?.stdout}${ran?.stderr}`);
      });

      test('for files', async () => {
        const sandbox = asked(scene);
        const answers: unknown[] = [];
        for (const path of [
          'outside/file',
          'outside/new',
          'workspace/link/new',
          'workspace/.git/new',
          'workspace/.codex/new',
          'alias/deep/new',
        ]) {
          const params = { path: uri(join(scene.path, path)), dataBase64: 'eA==', sandbox };
          answers.push(await server.outcome('fs/writeFile', params));
        }
        for (const path of ['secrets/deep/file', 'alias/deep/file']) {
          answers.push(await server.outcome('fs/readFile', { path: uri(join(scene.path, path)), sandbox }));
        }
        answers.push(
          await server.outcome('fs/search', { path: uri(scene.path), pattern: 'secret.of', sandbox }),
        );
        answers.push(
          await server.outcome('fs/remove', { path: uri(scene.outside), recursive: true, sandbox }),
        );
        expectUnharmed(JSON.stringify(answers));
      });
    },
  );

  test('a directory that another program exchanges for a link all the time', async () => {
    scene.directory('workspace/place');
    const flip = `import ctypes
exchange = ctypes.CDLL(None).renameat2
print('up', flush=True)
while True: exchange(-100, b'place', -100, b'link', 2)`;
    const id = await server.start(['/usr/bin/python3', '-c', flip], scene.profile(), {
      cwd: scene.workspace,
    });
    await server.said(id, 'up');
    const place = join(scene.workspace, 'place');
    const sandbox = managed([ROOT_READ, at(place, 'write')]);
    for (let round = 0; round < 30; round++) {
      const processId = `flip-${round}`;
      const argv = ['/bin/sh', '-c', `echo escaped > ${scene.outside}/new`];
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
    // When nobody exchanges them any more, the same is possible.
    const still = lstatSync(place).isDirectory() ? place : join(scene.workspace, 'link');
    const params = { path: uri(join(still, 'new')), dataBase64: 'eA==' };
    const allowed = managed([ROOT_READ, at(still, 'write')]);
    expect(await server.outcome('fs/writeFile', { ...params, sandbox: allowed })).toBeTypeOf('object');
    // bwrap makes places for its mounts before anybody can see that they are in the wrong directory. They stay empty.
    for (const name of ['.agents', '.aws', '.codex', '.git']) {
      const made = join(scene.outside, name);
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
      path: uri(join(scene.outside, 'file')),
      mode: 'write',
      handleId: 'h',
    });
    await server.outcome('fs/writeBlock', { handleId: 'h', offset: 0, dataBase64: 'eA==' });
    const secret = await server.outcome('fs/open', {
      path: uri(join(scene.path, 'secrets/deep/file')),
      mode: 'read',
      handleId: 's',
    });
    const block = await server.outcome('fs/readBlock', { handleId: 's', offset: 0, length: 100 });
    expectUnharmed(JSON.stringify([open, secret, block]));
  });

  test('the configuration of what is denied', async () => {
    const cwd = uri(join(scene.path, 'secrets/deep'));
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
  let scene: EscapeScene;
  let server: EscapeServer;
  beforeAll(async () => {
    scene = new EscapeScene(user);
    scene.file('outside/file');
    server = await scene.serve();
  });
  afterAll(() => scene.end());

  test.each<readonly [string, (scene: EscapeScene) => SandboxRequest]>([
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
      argv: ['/bin/sh', '-c', `echo escaped > ${scene.outside}/file`],
      cwd: 'file:///',
      env: {},
      tty: false,
      sandbox: asked(scene),
    };
    expect(await server.outcome('process/start', params)).toMatch(/^refused/);
    const path = uri(join(scene.outside, 'file'));
    expect(await server.outcome('fs/writeFile', { path, dataBase64: 'eA==', sandbox: asked(scene) })).toMatch(
      /^refused/,
    );
    expect(scene.read('outside/file')).toBe(UNTOUCHED);
  });

  test('a .git that is a link before the start opens nothing', async () => {
    scene.file('elsewhere/config');
    symlinkSync(join(scene.path, 'elsewhere'), join(scene.workspace, '.git'));
    const sandbox = scene.profile(at(join(scene.path, 'elsewhere'), 'write'));
    const params = {
      processId: 'linked',
      argv: ['/bin/sh', '-c', 'echo escaped > .git/config; rm .git'],
      cwd: uri(scene.workspace),
      env: {},
      tty: false,
      sandbox,
    };
    expect(await server.outcome('process/start', params)).toMatch(/^refused/);
    expect(scene.read('workspace/.git/config')).toBe(UNTOUCHED);
  });
});
