import { existsSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  at,
  denyGlob,
  EscapeScene,
  type EscapeServer,
  managed,
  ROOT_READ,
  SECRET,
  SERVER_USERS,
  UNTOUCHED,
  uri,
} from '../support/escape-fixture.ts';
import { FORBIDDEN_READS, FORBIDDEN_WRITES, written } from '../support/escape-requests.ts';

/** What is not as it was. */
function harmDone(scene: EscapeScene): string[] {
  const contents = {
    'outside/target': UNTOUCHED,
    'workspace/.git/config': UNTOUCHED,
    'workspace/tree/carved/file': UNTOUCHED,
    'workspace/hidden.txt': SECRET,
    'workspace/keys/a.pem': SECRET,
  };
  const names = {
    outside: 'target',
    'workspace/.git': 'HEAD,config,hooks',
    'workspace/.git/hooks': '',
    'workspace/denied': 'file',
    'workspace/later': '',
  };
  const absent = ['.codex', '.agents', '.aws', 'shown', 'shown-too/file', 'moved', 'now'];
  return [
    ...Object.entries(contents).filter(([path, content]) => !holds(() => scene.read(path) === content)),
    ...Object.entries(names).filter(([path, list]) => !holds(() => scene.names(path).join() === list)),
    ...absent.filter((name) => existsSync(join(scene.workspace, name))),
  ].map(String);
}

function holds(check: () => boolean): boolean {
  try {
    return check();
  } catch {
    return false;
  }
}

describe.each(SERVER_USERS)('file requests to a server run by %s do not get out by', (user) => {
  let scene: EscapeScene;
  let server: EscapeServer;
  const answers = new Map<string, string>();
  const harm = new Map<string, string[]>();

  beforeAll(async () => {
    scene = new EscapeScene(user);
    server = await scene.serve();
    for (const name of ['HEAD', 'config']) scene.file(`workspace/.git/${name}`);
    scene.directory('workspace/.git/hooks');
    scene.directory('workspace/later');
    for (const name of ['outside/target', 'workspace/own', 'workspace/tree/carved/file']) scene.file(name);
    for (const name of ['evil/.codex/config', 'evil/.git/config', 'evil/.agents/x']) {
      scene.file(`workspace/${name}`, 'escaped');
    }
    for (const name of ['denied/file', 'hidden.txt', 'keys/a.pem', 'tree/deep/.env']) {
      scene.file(`workspace/${name}`, SECRET);
    }
    const links = {
      'to-target': '../outside/target',
      'to-outside': scene.outside,
      'to-new': '../outside/new',
      'to-link': 'to-outside',
      'to-git': '.git',
      'to-codex': '.codex',
      'to-later': 'later',
      'to-hidden': 'hidden.txt',
      itself: '.',
    };
    for (const [name, target] of Object.entries(links)) symlinkSync(target, join(scene.workspace, name));
    const sandbox = scene.profile(
      at(join(scene.workspace, 'tree/carved'), 'read'),
      at(join(scene.workspace, 'later/file'), 'read'),
      at(join(scene.workspace, 'denied'), 'deny'),
      at(join(scene.workspace, 'hidden.txt'), 'deny'),
      denyGlob(join(scene.workspace, 'keys/*.pem')),
      denyGlob(join(scene.workspace, '**/.env')),
    );
    const real = (text: string) =>
      text
        .replace(/(?<![a-zA-Z])W/g, scene.workspace)
        .replace(/(?<![a-zA-Z])O/g, scene.outside)
        .replace('localhostW', `localhost${scene.workspace}`)
        .replace('rootO', `root${scene.outside}`)
        .replace('rootW', `root${scene.workspace}`);
    for (const { name, method, params } of [...FORBIDDEN_WRITES, ...FORBIDDEN_READS]) {
      const filled = Object.fromEntries(
        Object.entries(params).map(([key, value]) => [key, typeof value === 'string' ? real(value) : value]),
      );
      const roots = (params.roots as { path: string }[] | undefined)?.map((root) => ({
        ...root,
        path: real(root.path),
        sandbox,
      }));
      const answer = await server.outcome(method, { ...filled, ...(roots ? { roots } : { sandbox }) });
      answers.set(name, JSON.stringify(answer));
      harm.set(name, harmDone(scene));
    }
  });
  afterAll(() => scene.end());

  test.each(FORBIDDEN_WRITES)('$name', ({ name }) => expect(harm.get(name)).toEqual([]));

  test.each(FORBIDDEN_READS)('$name', ({ name }) => {
    const answer = answers.get(name)!;
    const texts = [...answer.matchAll(/"([A-Za-z0-9+/=]{8,})"/g)].map(([, text]) =>
      Buffer.from(text!, 'base64').toString(),
    );
    expect([answer, ...texts].join('\n')).not.toContain(SECRET);
    expect(answer).not.toMatch(/denied\/file/);
  });
});

describe.each(SERVER_USERS)('of a server run by %s, while a program exchanges', (user) => {
  let scene: EscapeScene;
  let server: EscapeServer;
  beforeAll(async () => {
    scene = new EscapeScene(user);
    server = await scene.serve();
  });
  afterAll(() => scene.end());

  /** Runs `work` while a sandboxed program exchanges two entries of the workspace all the time. */
  async function exchanging(
    one: string,
    other: string,
    work: () => Promise<void>,
    sandbox = scene.profile(),
  ): Promise<void> {
    const script = `import ctypes
exchange, [a, b] = ctypes.CDLL(None).renameat2, ${JSON.stringify([one, other])}
print('up', flush=True)
while True: exchange(-100, a.encode(), -100, b.encode(), 2)`;
    const options = { cwd: scene.workspace };
    const id = await server.start(['/usr/bin/python3', '-c', script], sandbox, options);
    await server.said(id, 'up');
    try {
      await work();
    } finally {
      await server.terminate(id);
    }
  }

  test('a directory and a link out, no write of 300 lands outside', async () => {
    scene.directory('workspace/place');
    symlinkSync(scene.outside, join(scene.workspace, 'bait'));
    const sandbox = scene.profile();
    const outcomes: unknown[] = [];
    await exchanging('place', 'bait', async () => {
      for (let round = 0; round < 30; round++) {
        const ten = Array.from({ length: 10 }, (_, index) => `place/${round}-${index}`);
        const requests = ten.flatMap((name) => [
          server.outcome('fs/writeFile', { path: uri(join(scene.workspace, name)), ...written, sandbox }),
          server.outcome('fs/createDirectory', {
            path: uri(join(scene.workspace, `${name}-d/e`)),
            recursive: true,
            sandbox,
          }),
          server.outcome('fs/remove', {
            path: uri(join(scene.workspace, 'place/kept')),
            recursive: true,
            sandbox,
          }),
        ]);
        outcomes.push(...(await Promise.all(requests)));
      }
    });
    expect(scene.names('outside')).toEqual([]);
    expect(outcomes.filter((outcome) => JSON.stringify(outcome) === '{}').length).toBeGreaterThan(0);
    expect(outcomes.filter((outcome) => String(outcome).startsWith('refused')).length).toBeGreaterThan(0);
  });

  test('directories around a file that a pattern denies, no other program reads it', async () => {
    scene.file('workspace/real/.env', SECRET);
    scene.directory('workspace/decoy');
    const sandbox = scene.profile(denyGlob(join(scene.workspace, '**/.env')));
    const read = ['/bin/sh', '-c', 'for i in 1 2 3 4 5 6 7 8; do cat real/.env decoy/.env; done'];
    await exchanging(
      'real',
      'decoy',
      async () => {
        for (let round = 0; round < 25; round++) {
          const ran = await server.run(read, sandbox, { cwd: scene.workspace });
          expect(ran.stdout).not.toContain(SECRET);
        }
      },
      sandbox,
    );
    expect(scene.read('workspace/real/.env')).toBe(SECRET);
  });

  test('a directory and a link to a protected name, nothing comes to lie there', async () => {
    scene.directory('workspace/spot');
    symlinkSync('.codex', join(scene.workspace, 'lure'));
    const sandbox = scene.profile();
    let made: string[] = [];
    await exchanging('spot', 'lure', async () => {
      for (let round = 0; round < 30; round++) {
        const ten = Array.from({ length: 10 }, (_, index) => `spot/${round}-${index}`);
        await Promise.all(
          ten.map((name) =>
            server.outcome('fs/writeFile', { path: uri(join(scene.workspace, name)), ...written, sandbox }),
          ),
        );
      }
      made = readdirSync(join(scene.workspace, '.codex'));
    });
    expect(made).toEqual([]);
    expect(existsSync(join(scene.workspace, '.codex'))).toBe(false);
  });
});

describe.each(SERVER_USERS)('of a server run by %s, what files show', (user) => {
  let scene: EscapeScene;
  let server: EscapeServer;
  beforeAll(async () => {
    scene = new EscapeScene(user);
    server = await scene.serve();
  });
  afterAll(() => scene.end());

  test('a request to remove the workspace does not open what a running program has closed', async () => {
    const script = 'echo up; read line; mkdir -p .codex && echo escaped > .codex/config.toml';
    const id = await server.start(['/bin/sh', '-c', script], scene.profile(), { cwd: scene.workspace });
    await server.said(id, 'up');
    scene.file('workspace/old');
    await server.outcome('fs/remove', {
      path: uri(scene.workspace),
      recursive: true,
      sandbox: scene.profile(),
    });
    expect(existsSync(join(scene.workspace, 'old'))).toBe(false);
    const go = { processId: id, chunk: Buffer.from('\n').toString('base64'), writeId: '1' };
    await server.client.call('process/write', go);
    expect((await server.ended(id)).exitCode).not.toBe(0);
    expect(existsSync(join(scene.workspace, '.codex'))).toBe(false);
  });

  test('what a pattern denies stays denied for the next program when its directory is renamed', async () => {
    for (const name of ['keys/a.pem', 'deep/er/.env', 'deep/er/x.key']) {
      scene.file(`workspace/${name}`, SECRET);
    }
    const globs = ['keys/*.pem', '**/.env', '**/er/*.key'].map((glob) =>
      denyGlob(join(scene.workspace, glob)),
    );
    const sandbox = scene.profile(...globs);
    const options = { cwd: scene.workspace };
    const moves = 'mv keys open; mv deep/er deep/others; mv deep shallow; mkdir d; mv deep d; true';
    await server.run(['/bin/sh', '-c', moves], sandbox, options);
    const ran = await server.run(
      ['/usr/bin/find', '.', '-type', 'f', '-exec', 'cat', '{}', '+'],
      sandbox,
      options,
    );
    expect(ran.stderr).toContain('denied');
    expect(ran.stdout).not.toContain(SECRET);
  });

  test('a directory beyond the depth that is looked through cannot be made deeper', async () => {
    scene.file('workspace/a/x.key', SECRET);
    const sandbox = managed(
      [ROOT_READ, at(scene.workspace, 'write'), denyGlob(join(scene.workspace, '**/*.key'))],
      { maxDepth: 2 },
    );
    const options = { cwd: scene.workspace };
    await server.run(['/bin/sh', '-c', 'mkdir -p b/c; mv a b/c/a'], sandbox, options);
    const ran = await server.run(['/bin/cat', 'a/x.key', 'b/c/a/x.key'], sandbox, options);
    expect(ran.stdout).not.toContain(SECRET);
  });

  test('git itself makes no repository', async () => {
    await server.run(['/usr/bin/git', 'init', '.'], scene.profile(), { cwd: scene.workspace });
    expect(existsSync(join(scene.workspace, '.git'))).toBe(false);
  });

  test('the directory that a .git file names is protected, and what it shares', async () => {
    const path = 'workspace/.git';
    scene.file(path, 'gitdir: repo/worktrees/w\n');
    scene.file('workspace/repo/worktrees/w/commondir', '../..\n');
    scene.file('workspace/repo/config');
    scene.directory('workspace/repo/hooks');
    const tries = [
      'echo gitdir: evil > .git',
      'echo x > repo/worktrees/w/config.worktree',
      'mv repo/worktrees/w repo/worktrees/v',
      'echo x > repo/config',
      'echo x > repo/hooks/pre-commit',
      'mv repo evil',
    ];
    await server.run(['/bin/sh', '-c', tries.join('; ')], scene.profile(), { cwd: scene.workspace });
    expect(scene.read(path)).toBe('gitdir: repo/worktrees/w\n');
    expect(scene.names('workspace/repo/worktrees/w')).toEqual(['commondir']);
    expect(scene.read('workspace/repo/config')).toBe(UNTOUCHED);
    expect(scene.names('workspace/repo/hooks')).toEqual([]);
  });
});
