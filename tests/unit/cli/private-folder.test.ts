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
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openOwnFile, privateFolder, readOwnFile } from '../../../src/cli/private-server/private-folder.ts';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'exec-server-private-'));
});
afterEach(() => rmSync(home, { recursive: true }));

// Where the system has a runtime directory, it is the one to use.
describe.skipIf(existsSync(`/run/user/${process.geteuid!()}`))('without a runtime directory', () => {
  test('the folder is in the state directory of the user', () => {
    const folder = privateFolder({ HOME: home, XDG_RUNTIME_DIR: join(home, 'missing') });
    expect(folder.path).toBe(join(home, '.local/state/exec-server/run'));
    expect(statSync(folder.path).mode & 0o777).toBe(0o700);
    const state = join(home, 'state');
    expect(privateFolder({ HOME: home, XDG_STATE_HOME: state }).path).toBe(join(state, 'exec-server/run'));
  });

  test('a state directory that cannot be used is passed over', () => {
    writeFileSync(join(home, 'file'), '');
    const env = { HOME: home, XDG_STATE_HOME: join(home, 'file') };
    expect(privateFolder(env).path).toBe(join(home, '.local/state/exec-server/run'));
  });

  test('a home whose path is too long for a socket is reported', () => {
    const long = join(home, 'x'.repeat(80));
    mkdirSync(long);
    expect(() => privateFolder({ HOME: long })).toThrow('set XDG_RUNTIME_DIR to a shorter one');
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
