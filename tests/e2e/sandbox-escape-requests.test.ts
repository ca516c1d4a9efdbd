import { existsSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  at,
  denyGlob,
  EscapeFixture,
  type EscapeServer,
  managed,
  ROOT_READ,
  SECRET,
  SERVER_USERS,
  UNTOUCHED,
  uri,
} from '../support/escape-fixture.ts';
import { FORBIDDEN_READS, FORBIDDEN_WRITES, written } from '../support/escape-requests.ts';

/** Lists everything that has changed. */
function harmDone(fixture: EscapeFixture): string[] {
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
    ...Object.entries(contents).filter(([path, content]) => !holds(() => fixture.read(path) === content)),
    ...Object.entries(names).filter(([path, list]) => !holds(() => fixture.names(path).join() === list)),
    ...absent.filter((name) => existsSync(join(fixture.workspace, name))),
  ].map(String);
}

function holds(check: () => boolean): boolean {
  try {
    return check();
  } catch {
    return false;
  }
}

describe.each(SERVER_USERS)('file requests to a server run by %s do not escape by', (user) => {
  let fixture: EscapeFixture;
  let server: EscapeServer;
  const answers = new Map<string, string>();
  const harm = new Map<string, string[]>();

  beforeAll(async () => {
    fixture = new EscapeFixture(user);
    server = await fixture.serve();
    for (const name of ['HEAD', 'config']) fixture.file(`workspace/.git/${name}`);
    fixture.directory('workspace/.git/hooks');
    fixture.directory('workspace/later');
    for (const name of ['outside/target', 'workspace/own', 'workspace/tree/carved/file']) fixture.file(name);
    for (const name of ['evil/.codex/config', 'evil/.git/config', 'evil/.agents/x']) {
      fixture.file(`workspace/${name}`, 'escaped');
    }
    for (const name of ['denied/file', 'hidden.txt', 'keys/a.pem', 'tree/deep/.env']) {
      fixture.file(`workspace/${name}`, SECRET);
    }
    const links = {
      'to-target': '../outside/target',
      'to-outside': fixture.outside,
      'to-new': '../outside/new',
      'to-link': 'to-outside',
      'to-git': '.git',
      'to-codex': '.codex',
      'to-later': 'later',
      'to-hidden': 'hidden.txt',
      itself: '.',
    };
    for (const [name, target] of Object.entries(links)) symlinkSync(target, join(fixture.workspace, name));
    const sandbox = fixture.profile(
      at(join(fixture.workspace, 'tree/carved'), 'read'),
      at(join(fixture.workspace, 'later/file'), 'read'),
      at(join(fixture.workspace, 'denied'), 'deny'),
      at(join(fixture.workspace, 'hidden.txt'), 'deny'),
      denyGlob(join(fixture.workspace, 'keys/*.pem')),
      denyGlob(join(fixture.workspace, '**/.env')),
    );
    const real = (text: string) =>
      text
        .replace(/(?<![a-zA-Z])W/g, fixture.workspace)
        .replace(/(?<![a-zA-Z])O/g, fixture.outside)
        .replace('localhostW', `localhost${fixture.workspace}`)
        .replace('rootO', `root${fixture.outside}`)
        .replace('rootW', `root${fixture.workspace}`);
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
      harm.set(name, harmDone(fixture));
    }
  });
  afterAll(() => fixture.end());

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

describe.each(SERVER_USERS)('on a server run by %s, while a program keeps swapping', (user) => {
  let fixture: EscapeFixture;
  let server: EscapeServer;
  beforeAll(async () => {
    fixture = new EscapeFixture(user);
    server = await fixture.serve();
  });
  afterAll(() => fixture.end());

  /** Runs `work` while a sandboxed program keeps swapping two entries of the workspace. */
  async function exchanging(
    one: string,
    other: string,
    work: () => Promise<void>,
    sandbox = fixture.profile(),
  ): Promise<void> {
    const script = `import ctypes
exchange, [a, b] = ctypes.CDLL(None).renameat2, ${JSON.stringify([one, other])}
print('up', flush=True)
while True: exchange(-100, a.encode(), -100, b.encode(), 2)`;
    const options = { cwd: fixture.workspace };
    const id = await server.start(['/usr/bin/python3', '-c', script], sandbox, options);
    await server.said(id, 'up');
    try {
      await work();
    } finally {
      await server.terminate(id);
    }
  }

  test('a directory and a link to the outside, none of 300 writes lands outside', async () => {
    fixture.directory('workspace/place');
    symlinkSync(fixture.outside, join(fixture.workspace, 'bait'));
    const sandbox = fixture.profile();
    const outcomes: unknown[] = [];
    await exchanging('place', 'bait', async () => {
      for (let round = 0; round < 30; round++) {
        const ten = Array.from({ length: 10 }, (_, index) => `place/${round}-${index}`);
        const requests = ten.flatMap((name) => [
          server.outcome('fs/writeFile', { path: uri(join(fixture.workspace, name)), ...written, sandbox }),
          server.outcome('fs/createDirectory', {
            path: uri(join(fixture.workspace, `${name}-d/e`)),
            recursive: true,
            sandbox,
          }),
          server.outcome('fs/remove', {
            path: uri(join(fixture.workspace, 'place/kept')),
            recursive: true,
            sandbox,
          }),
        ]);
        outcomes.push(...(await Promise.all(requests)));
      }
    });
    expect(fixture.names('outside')).toEqual([]);
    expect(outcomes.filter((outcome) => JSON.stringify(outcome) === '{}').length).toBeGreaterThan(0);
    expect(outcomes.filter((outcome) => String(outcome).startsWith('refused')).length).toBeGreaterThan(0);
  });

  test('the parent directories of a file that a glob denies, no other program reads it', async () => {
    fixture.file('workspace/real/.env', SECRET);
    fixture.directory('workspace/decoy');
    const sandbox = fixture.profile(denyGlob(join(fixture.workspace, '**/.env')));
    const read = ['/bin/sh', '-c', 'for i in 1 2 3 4 5 6 7 8; do cat real/.env decoy/.env; done'];
    await exchanging(
      'real',
      'decoy',
      async () => {
        for (let round = 0; round < 25; round++) {
          const ran = await server.run(read, sandbox, { cwd: fixture.workspace });
          expect(ran.stdout).not.toContain(SECRET);
        }
      },
      sandbox,
    );
    expect(fixture.read('workspace/real/.env')).toBe(SECRET);
  });

  test('a directory and a link to a protected name, nothing is created there', async () => {
    fixture.directory('workspace/spot');
    symlinkSync('.codex', join(fixture.workspace, 'lure'));
    const sandbox = fixture.profile();
    let made: string[] = [];
    await exchanging('spot', 'lure', async () => {
      for (let round = 0; round < 30; round++) {
        const ten = Array.from({ length: 10 }, (_, index) => `spot/${round}-${index}`);
        await Promise.all(
          ten.map((name) =>
            server.outcome('fs/writeFile', { path: uri(join(fixture.workspace, name)), ...written, sandbox }),
          ),
        );
      }
      made = readdirSync(join(fixture.workspace, '.codex'));
    });
    expect(made).toEqual([]);
    expect(existsSync(join(fixture.workspace, '.codex'))).toBe(false);
  });
});

describe.each(SERVER_USERS)('on a server run by %s', (user) => {
  let fixture: EscapeFixture;
  let server: EscapeServer;
  beforeAll(async () => {
    fixture = new EscapeFixture(user);
    server = await fixture.serve();
  });
  afterAll(() => fixture.end());

  test('a request to remove the workspace does not remove the mounts of a running program', async () => {
    const script = 'echo up; read line; mkdir -p .codex && echo escaped > .codex/config.toml';
    const id = await server.start(['/bin/sh', '-c', script], fixture.profile(), { cwd: fixture.workspace });
    await server.said(id, 'up');
    fixture.file('workspace/old');
    await server.outcome('fs/remove', {
      path: uri(fixture.workspace),
      recursive: true,
      sandbox: fixture.profile(),
    });
    expect(existsSync(join(fixture.workspace, 'old'))).toBe(false);
    const go = { processId: id, chunk: Buffer.from('\n').toString('base64'), writeId: '1' };
    await server.client.call('process/write', go);
    expect((await server.ended(id)).exitCode).not.toBe(0);
    expect(existsSync(join(fixture.workspace, '.codex'))).toBe(false);
  });

  test('a file that a glob denies stays denied for the next program when its directory is renamed', async () => {
    for (const name of ['keys/a.pem', 'deep/er/.env', 'deep/er/x.key']) {
      fixture.file(`workspace/${name}`, SECRET);
    }
    const globs = ['keys/*.pem', '**/.env', '**/er/*.key'].map((glob) =>
      denyGlob(join(fixture.workspace, glob)),
    );
    const sandbox = fixture.profile(...globs);
    const options = { cwd: fixture.workspace };
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

  test('a directory beyond the scanned depth cannot be moved deeper', async () => {
    fixture.file('workspace/a/x.key', SECRET);
    const sandbox = managed(
      [ROOT_READ, at(fixture.workspace, 'write'), denyGlob(join(fixture.workspace, '**/*.key'))],
      { maxDepth: 2 },
    );
    const options = { cwd: fixture.workspace };
    await server.run(['/bin/sh', '-c', 'mkdir -p b/c; mv a b/c/a'], sandbox, options);
    const ran = await server.run(['/bin/cat', 'a/x.key', 'b/c/a/x.key'], sandbox, options);
    expect(ran.stdout).not.toContain(SECRET);
  });

  test('git cannot create a repository', async () => {
    await server.run(['/usr/bin/git', 'init', '.'], fixture.profile(), { cwd: fixture.workspace });
    expect(existsSync(join(fixture.workspace, '.git'))).toBe(false);
  });

  test('the git directory that a .git file names, and its common directory, are protected', async () => {
    const path = 'workspace/.git';
    fixture.file(path, 'gitdir: repo/worktrees/w\n');
    fixture.file('workspace/repo/worktrees/w/commondir', '../..\n');
    fixture.file('workspace/repo/config');
    fixture.directory('workspace/repo/hooks');
    const tries = [
      'echo gitdir: evil > .git',
      'echo x > repo/worktrees/w/config.worktree',
      'mv repo/worktrees/w repo/worktrees/v',
      'echo x > repo/config',
      'echo x > repo/hooks/pre-commit',
      'mv repo evil',
    ];
    await server.run(['/bin/sh', '-c', tries.join('; ')], fixture.profile(), { cwd: fixture.workspace });
    expect(fixture.read(path)).toBe('gitdir: repo/worktrees/w\n');
    expect(fixture.names('workspace/repo/worktrees/w')).toEqual(['commondir']);
    expect(fixture.read('workspace/repo/config')).toBe(UNTOUCHED);
    expect(fixture.names('workspace/repo/hooks')).toEqual([]);
  });
});
