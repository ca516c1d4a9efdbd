import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openOwnFile, privateFolder, readOwnFile } from '../../../src/cli/private-server/private-folder.ts';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'exec-server-private-'));
});
afterEach(() => rmSync(home, { recursive: true }));

/** The folders of logins, in the home directory of the test. */
function loginFolders(...present: ('runtime' | 'managed' | 'lingering')[]) {
  const at = (name: string) => join(home, 'system', name);
  const folders = { runtime: at('user'), managed: at('users'), lingering: at('linger') };
  const runtime = join(folders.runtime, `${process.geteuid!()}`);
  mkdirSync(folders.lingering, { recursive: true });
  if (present.includes('runtime')) mkdirSync(runtime, { recursive: true });
  if (present.includes('managed')) mkdirSync(folders.managed);
  if (present.includes('lingering')) writeFileSync(join(folders.lingering, userInfo().username), '');
  return { folders, runtime };
}

/** The state directory of the home, with the name of this machine as other machines that share it do not have it. */
const IN_STATE = /^\/\.local\/state\/exec-server\/run-[0-9a-f]{8}$/;

describe('without a runtime directory', () => {
  test('the folder is in the state directory of the user', () => {
    const { folders } = loginFolders();
    const folder = privateFolder({ HOME: home, XDG_RUNTIME_DIR: join(home, 'missing') }, folders);
    expect(folder.path.slice(home.length)).toMatch(IN_STATE);
    expect(statSync(folder.path).mode & 0o777).toBe(0o700);
    const state = join(home, 'state');
    const other = privateFolder({ HOME: home, XDG_STATE_HOME: state }, folders);
    expect(dirname(other.path)).toBe(join(state, 'exec-server'));
  });

  test('a state directory that cannot be used is passed over', () => {
    writeFileSync(join(home, 'file'), '');
    const env = { HOME: home, XDG_STATE_HOME: join(home, 'file') };
    expect(privateFolder(env, loginFolders().folders).path.slice(home.length)).toMatch(IN_STATE);
  });

  test('a home whose path is too long for a socket is reported', () => {
    const { folders } = loginFolders();
    const long = join(home, 'x'.repeat(80));
    mkdirSync(long);
    expect(() => privateFolder({ HOME: long }, folders)).toThrow('set XDG_RUNTIME_DIR to a shorter one');
  });
});

describe('with the runtime directory of a login', () => {
  test('the folder is in it where it stays: no systemd removes it, or the user lingers', () => {
    const { folders, runtime } = loginFolders('runtime');
    expect(privateFolder({ HOME: home }, folders).path).toBe(join(runtime, 'exec-server'));
    loginFolders('managed', 'lingering');
    expect(privateFolder({ HOME: home, XDG_RUNTIME_DIR: runtime }, folders).path).toBe(
      join(runtime, 'exec-server'),
    );
  });

  test('the folder is in the state directory where systemd removes it with the last login', () => {
    const { folders, runtime } = loginFolders('runtime', 'managed');
    const paths = [{}, { XDG_RUNTIME_DIR: runtime }, { XDG_RUNTIME_DIR: `${runtime}/` }].map(
      (env) => privateFolder({ HOME: home, ...env }, folders).path,
    );
    expect(new Set(paths).size).toBe(1);
    expect(paths[0]!.slice(home.length)).toMatch(IN_STATE);
  });

  test('the folder is in it where the state directory is of no use', () => {
    const { folders, runtime } = loginFolders('runtime', 'managed');
    const long = join(home, 'x'.repeat(80));
    mkdirSync(long);
    expect(privateFolder({ HOME: long }, folders).path).toBe(join(runtime, 'exec-server'));
  });

  test('another runtime directory is used as it is', () => {
    const { folders } = loginFolders('runtime', 'managed');
    const own = join(home, 'own');
    mkdirSync(own);
    expect(privateFolder({ HOME: home, XDG_RUNTIME_DIR: own }, folders).path).toBe(join(own, 'exec-server'));
  });
});

describe('a file of the folder', () => {
  const WRITE = constants.O_WRONLY | constants.O_CREAT;

  test.each<[string, (file: string, precious: string) => void]>([
    ['a symbolic link', (file, precious) => symlinkSync(precious, file)],
    ['a second name of another file', (file, precious) => linkSync(precious, file)],
    ['a pipe', (file) => spawnSync('mkfifo', [file])],
    ['a directory', (file) => mkdirSync(file)],
  ])('is not %s', (_name, plant) => {
    const { path, log } = privateFolder({ XDG_RUNTIME_DIR: home });
    const precious = join(home, 'precious');
    writeFileSync(precious, 'precious');
    plant(log, precious);
    expect(() => openOwnFile(log, WRITE)).toThrow(`${path}/server.log is not a regular file of this user`);
    expect(() => readOwnFile(log)).toThrow(`${path}/server.log is not a regular file of this user`);
    expect(readFileSync(precious, 'utf8')).toBe('precious');
  });

  test('is opened only in a folder of the user, which is closed to others', () => {
    const { path, log } = privateFolder({ XDG_RUNTIME_DIR: home });
    chmodSync(path, 0o755);
    closeSync(openOwnFile(log, WRITE));
    expect(statSync(path).mode & 0o777).toBe(0o700);
    rmSync(path, { recursive: true });
    mkdirSync(join(home, 'other'));
    symlinkSync(join(home, 'other'), path);
    expect(() => openOwnFile(log, WRITE)).toThrow(`${path} is not a directory of this user`);
    expect(existsSync(join(home, 'other', 'server.log'))).toBe(false);
  });
});
