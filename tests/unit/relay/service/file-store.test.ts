import {
  appendFileSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { loadFileLock } from '../../../../src/cli/file-lock.ts';
import { createLogger } from '../../../../src/observability/log.ts';
import {
  MAX_REGISTRATION_FILE_BYTES,
  REGISTRATION_FILE_APPENDED_LINES,
} from '../../../../src/relay/service/limits.ts';
import { openStore } from '../../../../src/relay/service/store/open-store.ts';
import { RegistrationFile } from '../../../../src/relay/service/store/registration-file.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { registrationOf, someKey } from './relay-fixture.ts';

const quiet = createLogger('error', () => {});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'relay-store-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

test('file: registrations and replaced executors survive a restart', async () => {
  const path = join(folder(), 'registrations');
  const keys = [someKey(), someKey()] as const;
  const before = await openStore(`file://${path}`, quiet);
  await before.register('e', keys[0]);
  const id = await registrationOf(before, keys[1]);
  await registrationOf(before, keys[0], 'other');
  await before.close();
  expect(statSync(path).mode & 0o777).toBe(0o600);
  // The leftover of a killed process.
  appendFileSync(path, '{"environmentId":"torn');
  const after = await openStore(`file://${path}`, quiet);
  expect(await after.register('e', keys[1])).toEqual({ outcome: 'returned', registrationId: id });
  expect(await after.register('e', keys[0])).toEqual({ outcome: 'superseded' });
  expect((await after.find('other'))?.node).toBeNull();
  await after.close();
  expect(readFileSync(path, 'utf8').trimEnd().split('\n')).toHaveLength(2);
});

const executorKey = someKey().toJSON();

function stored(environmentId: string) {
  const registration = { environmentId, registrationId: 'r', executorKey, keyHash: 'h' };
  return { registration, superseded: [] };
}

/** Creates a file with so many appended lines that the next registration rewrites it. */
async function fullFile(path: string, log = quiet) {
  const { file } = await RegistrationFile.open(path, log, await loadFileLock());
  const all = new Map([['kept', stored('kept')]]);
  for (let index = 0; index < REGISTRATION_FILE_APPENDED_LINES; index++) {
    file.append(stored(`${index}`), all);
    file.append(stored(`${index}`), all);
  }
  await waitFor('the lines', () => linesOf(path) >= REGISTRATION_FILE_APPENDED_LINES);
  return { file, add: () => file.append(stored('kept'), all) };
}

function linesOf(path: string): number {
  return readFileSync(path, 'utf8').split('\n').length - 1;
}

test('file: rewrites the file after many appended lines', async () => {
  const path = join(folder(), 'registrations');
  const { file, add } = await fullFile(path);
  add();
  await file.close();
  expect(linesOf(path)).toBe(1);
});

test('file: retries a failed write with the next registration', async () => {
  const parent = folder();
  const path = join(parent, 'below', 'registrations');
  mkdirSync(dirname(path));
  const errors: string[] = [];
  const { file, add } = await fullFile(
    path,
    createLogger('error', (line) => errors.push(line)),
  );
  renameSync(dirname(path), join(parent, 'elsewhere'));
  add();
  await waitFor('the failure', () => errors.length === 1);
  renameSync(join(parent, 'elsewhere'), dirname(path));
  add();
  await file.close();
  expect([linesOf(path), errors.length]).toEqual([1, 1]);
});

test('file: refuses a file that another relay uses, until that relay has ended', async () => {
  const path = join(folder(), 'registrations');
  const lock = await loadFileLock();
  const { file, add } = await fullFile(path);
  const refused = () =>
    expect(openStore(`file://${path}`, quiet, lock)).rejects.toThrow(
      /another relay uses it. Stop that relay/,
    );
  await refused();
  // The file stays locked during a rewrite.
  add();
  await waitFor('a new file', () => linesOf(path) === 1);
  await refused();
  await file.close();
  expect(linesOf(path)).toBe(1);
  await (await openStore(`file://${path}`, quiet, lock)).close();
});

test('file: locks the current file when it is replaced while being opened', async () => {
  const path = join(folder(), 'registrations');
  const lock = (await loadFileLock())!;
  const { file } = await RegistrationFile.open(path, quiet, null);
  onTestFinished(() => file.close());
  const replaceOnce = vi.fn(() => {
    renameSync(path, `${path}-before`);
    renameSync(`${path}-after`, path);
    return true;
  });
  writeFileSync(`${path}-after`, '');
  const held = openSync(`${path}-after`, 'r');
  onTestFinished(() => closeSync(held));
  expect(lock(held)).toBe(true);
  const racing = (fd: number) => (replaceOnce.mock.calls.length === 0 ? replaceOnce() : lock(fd));
  await expect(RegistrationFile.open(path, quiet, racing)).rejects.toThrow(/another relay uses it/);
});

test.each([
  ['the system has no locks', null, /file locks are not available/],
  [
    'the file system has no locks',
    () => {
      throw new Error('flock: ENOLCK');
    },
    /flock: ENOLCK/,
  ],
])('file: works with one warning where %s', async (_what, lock, reason) => {
  const path = join(folder(), 'registrations');
  const lines: string[] = [];
  const log = createLogger('warn', (line) => lines.push(line));
  const { file } = await RegistrationFile.open(path, log, lock);
  file.append(stored('e'), new Map());
  await file.close();
  expect(linesOf(path)).toBe(1);
  expect(lines).toEqual([expect.stringMatching(/cannot lock the registration file/)]);
  expect(lines[0]).toMatch(reason);
});

test('file: rejects a file above the size limit', async () => {
  const path = join(folder(), 'registrations');
  writeFileSync(path, '');
  truncateSync(path, MAX_REGISTRATION_FILE_BYTES + 1);
  await expect(openStore(`file://${path}`, quiet)).rejects.toThrow(/it is larger than 256 MiB/);
});

test('file: names a missing folder and the command that creates it', async () => {
  const path = join(folder(), 'missing', 'registrations');
  await expect(openStore(`file://${path}`, quiet)).rejects.toMatchObject({
    name: 'StartError',
    message: `cannot keep registrations in ${path}: the folder ${dirname(path)} does not exist. Create it with: mkdir -p '${dirname(path)}'`,
  });
});

test('file: rejects a folder, and a path below a file', async () => {
  const path = folder();
  await expect(openStore(`file://${path}`, quiet)).rejects.toThrow(
    /cannot keep registrations.*EISDIR.*--store/,
  );
  writeFileSync(join(path, 'file'), '');
  await expect(openStore(`file://${path}/file/x`, quiet)).rejects.toThrow(/cannot keep registrations/);
});

test('file: does not change a file with other contents', async () => {
  const path = join(folder(), 'notes');
  for (const text of ['{}\n', 'a note', '\n']) {
    writeFileSync(path, text);
    await expect(openStore(`file://${path}`, quiet)).rejects.toThrow(/something other than registrations/);
    expect(readFileSync(path, 'utf8')).toBe(text);
  }
  symlinkSync('/dev/null', `${path}-device`);
  await expect(openStore(`file://${path}-device`, quiet)).rejects.toThrow(/it is not a regular file/);
});

test('file: opens a file whose first line is incomplete', async () => {
  const path = join(folder(), 'registrations');
  writeFileSync(path, '{"envi');
  await (await openStore(`file://${path}`, quiet)).close();
  expect(readFileSync(path, 'utf8')).toBe('');
});

test('file: fails after ten attempts when the file is removed each time', async () => {
  const path = join(folder(), 'registrations');
  let opened = 0;
  const removing = () => {
    opened++;
    rmSync(path);
    return true;
  };
  await expect(RegistrationFile.open(path, quiet, removing)).rejects.toThrow(
    /another process keeps replacing it/,
  );
  expect(opened).toBe(10);
});
