import { expect, test } from 'vitest';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { METHODS, type Method } from '../../../../src/protocol/registry.ts';
import {
  type Access,
  accessKey,
  FULL_ACCESS,
  isUnlimited,
  readOnlyAccess,
  requireAccess,
} from '../../../../src/server/auth/access.ts';

const access = (parts: Partial<Access>): Access => ({
  ...{ ...FULL_ACCESS, exec: false, observe: false, files: 'none', net: false },
  ...parts,
});
const METHOD_NAMES = Object.keys(METHODS) as Method[];

function allowed(given: Access, mode = 'read'): Method[] {
  return METHOD_NAMES.filter((method) => {
    try {
      requireAccess(given, method, { mode });
      return true;
    } catch (error) {
      expect(error).toMatchObject({ code: -32003, message: expect.stringContaining(method) });
      return false;
    }
  });
}

const OPEN_TO_ALL = ['initialize', 'environment/info', 'environment/status'];
const PROCESSES = METHOD_NAMES.filter((name) => /^(?:process|command|recordings)\//.test(name));
const READING = [
  'capabilities/discoverV2',
  'capabilityRoots/discoverV1',
  'environmentConfig/read',
  ...['readFile', 'getMetadata', 'canonicalize', 'readDirectory', 'walk', 'open', 'readBlock', 'close'],
  ...['watchMissing', 'watch', 'unwatch', 'search', 'hash', 'list'],
].map((name) => (name.includes('/') ? name : `fs/${name}`));
const WRITING = [
  ...['writeFile', 'createDirectory', 'remove', 'copy', 'rename', 'writeBlock'],
  ...['setAttributes', 'createLink'],
].map((name) => `fs/${name}`);
const NETWORK = METHOD_NAMES.filter((name) => /^(?:http|tcp|ports)\//.test(name));
const OBSERVING = [
  ...['attach', 'detach', 'list', 'read', 'screen', 'snapshot', 'wait'].map((name) => `process/${name}`),
  ...['recordings/list', 'recordings/read'],
];
const NOT_RESTRICTABLE = [
  'capabilities/discoverV2',
  'capabilityRoots/discoverV1',
  'environmentConfig/read',
  'fs/copy',
  'fs/createLink',
  'fs/watchMissing',
  'fs/watch',
  'fs/search',
];
const sorted = (names: readonly string[]) => [...names].sort();

test('a connection without limits but for the processes of other owners is unlimited', () => {
  expect(
    [{}, { observe: false }, { exec: false }, { net: false }].map((less) =>
      isUnlimited({ ...FULL_ACCESS, ...less }),
    ),
  ).toEqual([true, true, false, false]);
});

test('full access allows every method', () => {
  expect(allowed(FULL_ACCESS)).toEqual(METHOD_NAMES);
});

test.each<[string, Partial<Access>, readonly string[]]>([
  ['nothing', {}, []],
  ['exec', { exec: true }, PROCESSES],
  ['read-only', { files: 'read' }, READING],
  ['files', { files: 'write' }, [...READING, ...WRITING]],
  ['net', { net: true }, NETWORK],
  ['observe', { observe: true }, OBSERVING],
])('the scope %s allows its methods and no others', (_, parts, methods) => {
  expect(sorted(allowed(access(parts)))).toEqual(sorted([...OPEN_TO_ALL, ...methods]));
});

test('refuses methods that may leave the directory of a token', () => {
  const restricted = access({ files: 'write', below: nativePathOfText('/srv') });
  const methods = [...READING, ...WRITING].filter((name) => !NOT_RESTRICTABLE.includes(name));
  expect(sorted(allowed(restricted))).toEqual(sorted([...OPEN_TO_ALL, ...methods]));
});

test.each(['replace', 'atomicReplace'])(
  'refuses to open a file with mode %s for a token that may only read',
  (mode) => {
    expect(allowed(access({ files: 'read' }), mode)).not.toContain('fs/open');
    expect(allowed(access({ files: 'write' }), mode)).toContain('fs/open');
  },
);

test('connections with the same rights have the same key', () => {
  expect(accessKey(access({ exec: true }))).toBe(accessKey(access({ exec: true })));
  expect(accessKey(access({ files: 'read' }))).not.toBe(accessKey(access({ files: 'write' })));
  expect(accessKey(access({ net: true }))).not.toBe(accessKey(access({})));
  expect(accessKey(access({ observe: true }))).not.toBe(accessKey(access({})));
  const below = nativePathOfText('/srv');
  expect(accessKey(access({ files: 'read' }))).not.toBe(accessKey(access({ files: 'read', below })));
});

test.each<[string, Partial<Access>, readonly string[]]>([
  ['everything', FULL_ACCESS, [...READING, ...OBSERVING]],
  ['everything of its own', { ...FULL_ACCESS, observe: false }, [...READING, ...OBSERVING]],
  ['exec', { exec: true }, OBSERVING],
  ['files', { files: 'write' }, READING],
  ['net', { net: true }, []],
])('without the rights to change anything, %s allows to look', (_, parts, methods) => {
  const reduced = readOnlyAccess(access(parts));
  expect(sorted(allowed(reduced))).toEqual(sorted([...OPEN_TO_ALL, ...methods]));
  expect(allowed(reduced, 'replace')).not.toContain('fs/open');
  expect(reduced.observe).toBe(access(parts).observe);
  expect(readOnlyAccess(reduced)).toEqual(reduced);
});

test('a session without the rights to change anything is not one with them', () => {
  expect(accessKey(readOnlyAccess(FULL_ACCESS))).not.toBe(accessKey(FULL_ACCESS));
});
