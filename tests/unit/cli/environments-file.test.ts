import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import {
  addEnvironment,
  readEnvironments,
  removeEnvironment,
  setDefault,
} from '../../../src/cli/environments/environments-file.ts';

const home = mkdtempSync(join(tmpdir(), 'environments-file-'));
const env = { XDG_CONFIG_HOME: home };
const path = join(home, 'exec-server', 'environments.toml');
afterEach(() => rmSync(home, { recursive: true, force: true }));

const tls = { ca: null, cert: null, key: null };
const server = (id: string) => ({ id, url: `ws://${id}:1`, tokenFile: null, environmentId: null, tls });

function write(text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

test('a missing file has no environments', async () => {
  expect(await readEnvironments(env)).toEqual({ path, environments: [], default: null });
});

test('adds, chooses and removes environments, and keeps comments', async () => {
  write(
    '# Machines of the team.\n\n[[environments]]\nid = "old" # do not use\nurl = "ws://old:1"\n\n# The new one:\n',
  );
  await addEnvironment(env, server('a'));
  await addEnvironment(env, { id: 'b', url: 'https://relay', tokenFile: '/t', environmentId: 'build', tls });
  await setDefault(env, 'a');
  expect(await readEnvironments(env)).toEqual({
    path,
    environments: [
      server('old'),
      server('a'),
      { id: 'b', url: 'https://relay', tokenFile: '/t', environmentId: 'build', tls },
    ],
    default: 'a',
  });
  expect(readFileSync(path, 'utf8')).toContain('# Machines of the team.');
  expect(readFileSync(path, 'utf8')).toContain('# do not use');
  await setDefault(env, 'b');
  await removeEnvironment(env, 'a');
  expect((await readEnvironments(env)).environments.map(({ id }) => id)).toEqual(['old', 'b']);
  // The default stays, so that commands that were meant for it fail.
  await removeEnvironment(env, 'b');
  await removeEnvironment(env, 'old');
  expect(await readEnvironments(env)).toEqual({ path, environments: [], default: 'b' });
  expect(readFileSync(path, 'utf8')).toContain('# Machines of the team.');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(dirname(path))).toEqual(['environments.toml']);
});

test('does not change a file in a form that it cannot edit safely', async () => {
  const text = 'environments = [{ id = "a", url = "ws://a:1" }]\n';
  write(text);
  for (const change of [removeEnvironment(env, 'a'), addEnvironment(env, server('b'))]) {
    await expect(change).rejects.toThrow(
      `${path} has an unusual form and cannot be changed safely; edit it by hand`,
    );
  }
  expect(readFileSync(path, 'utf8')).toBe(text);
});

test('a table in a multi-line string is not mistaken for an environment', async () => {
  const text = '[[environments]]\nid = "a"\nurl = """ws://a\n[[environments]]\n"""\n';
  write(text);
  await expect(removeEnvironment(env, 'a')).rejects.toThrow('edit it by hand');
  expect(readFileSync(path, 'utf8')).toBe(text);
});

test('refuses a name that exists', async () => {
  await addEnvironment(env, server('a'));
  await expect(addEnvironment(env, server('a'))).rejects.toThrow("'exec-server env rm a'");
});

test('keeps the files for TLS', async () => {
  const secure = {
    ...{ id: 'a', url: 'wss://a', tokenFile: null, environmentId: null },
    tls: { ca: '/ca', cert: '/cert', key: '/key' },
  };
  await addEnvironment(env, secure);
  expect((await readEnvironments(env)).environments).toEqual([secure]);
});

test('changes that are made at the same time are all kept', async () => {
  const ids = Array.from({ length: 20 }, (_, index) => `e${index}`);
  await Promise.all(ids.map((id) => addEnvironment(env, server(id))));
  const { environments } = await readEnvironments(env);
  expect(environments.map(({ id }) => id).sort()).toEqual(ids.toSorted());
  await Promise.all([...ids, ...ids].map((id) => removeEnvironment(env, id)));
  expect((await readEnvironments(env)).environments).toEqual([]);
  expect(readdirSync(dirname(path))).toEqual(['environments.toml']);
});

test.each([
  ['color = 1', "unknown key 'color'"],
  ['[[environments]]\nurl = "ws://a"', "'id' is missing"],
  ['[[environments]]\nid = "local"\nurl = "ws://a"', "the name 'local' is reserved"],
  ['[[environments]]\nid = "a b"\nurl = "ws://a"', "'a b' is not a name"],
  ['[[environments]]\nid = "a"', "it needs either 'url' or 'registry_url'"],
  [
    '[[environments]]\nid = "a"\nurl = "ws://a"\nenvironment_id = "b"',
    "only valid together with 'registry_url'",
  ],
  ['[[environments', 'not valid TOML'],
  ['[[environments]]\nid = "a"\nurl = "ws://a"\nca_file = "/ca"', 'are only for wss:// and https:// URLs'],
  [
    '[[environments]]\nid = "a"\nurl = "wss://a"\ncert_file = "/c"',
    "'cert_file' and 'key_file' need each other",
  ],
])('rejects %j', async (text, message) => {
  write(text);
  await expect(readEnvironments(env)).rejects.toThrow(message);
});
