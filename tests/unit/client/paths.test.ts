import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fileUriOf, toFileUri, toNativePath } from '../../../src/client/paths.ts';
import { shellCommand, shellKind } from '../../../src/client/process/shell-command.ts';
import { pathFromUri } from '../../../src/files/path-uri.ts';

describe('shellCommand', () => {
  test.each([
    ['bash', '/bin/bash', true, ['/bin/bash', '-lc', 'ls']],
    ['bash', '/bin/bash', false, ['/bin/bash', '-c', 'ls']],
    ['zsh', '/bin/zsh', true, ['/bin/zsh', '-lc', 'ls']],
    ['sh', '/bin/sh', false, ['/bin/sh', '-c', 'ls']],
    ['powershell', 'C:\\pwsh.exe', true, ['C:\\pwsh.exe', '-Command', 'ls']],
    ['pwsh', 'C:\\pwsh.exe', false, ['C:\\pwsh.exe', '-NoProfile', '-Command', 'ls']],
    ['cmd', 'C:\\cmd.exe', true, ['C:\\cmd.exe', '/c', 'ls']],
  ])('%s %s, login %s', (name, path, login, argv) => {
    expect(shellCommand({ name, path }, 'ls', login)).toEqual(argv);
  });

  test('detects the kind of a shell by its name or path', () => {
    expect(['/usr/bin/bash', 'bash', 'C:\\x\\PWSH.EXE', 'powershell'].map(shellKind)).toEqual([
      'bash',
      'bash',
      'powershell',
      'powershell',
    ]);
  });
});

test('an empty path is no path', async () => {
  const refused = { kind: 'invalidInput', message: expect.stringMatching(/^the path is empty; pass '\.'/) };
  expect(() => toFileUri('', 'file:///srv/ws')).toThrow(expect.objectContaining(refused));
  await expect(fileUriOf('', async () => 'file:///srv/ws')).rejects.toMatchObject(refused);
});

describe('toFileUri', () => {
  test.each([
    ['file:///srv/ws', 'a/b', 'file:///srv/ws/a/b'],
    ['file:///srv/ws/', './a/', 'file:///srv/ws/a'],
    ['file:///srv/ws', '../x', 'file:///srv/x'],
    ['file:///srv/ws', '../../../..', 'file:///'],
    ['file:///srv/ws', '/tmp', 'file:///tmp'],
    ['file:///srv/ws', '/', 'file:///'],
    ['file:///srv/ws', './file:x', 'file:///srv/ws/file%3Ax'],
    ['file:///srv/ws', 'file:///tmp/a%20b', 'file:///tmp/a%20b'],
    ['file:///srv/with%20space', 'é ?#%41\\', 'file:///srv/with%20space/%C3%A9%20%3F%23%2541%5C'],
    ['file:///srv/ws', 'C:\\x', 'file:///srv/ws/C%3A%5Cx'],
    ['file:///C:/ws', 'a\\b', 'file:///C:/ws/a/b'],
    ['file:///C:/ws', '..\\..\\..', 'file:///C:'],
    ['file:///C:/ws', 'D:\\x', 'file:///D:/x'],
    ['file:///C:/ws', 'D:/x/../y', 'file:///D:/y'],
    ['file:///C:/ws', '\\x', 'file:///C:/x'],
    ['file:///C:/ws', '\\\\host\\share\\a', 'file://host/share/a'],
    ['file://host/share/a', 'b', 'file://host/share/a/b'],
    ['file://host/share/a', 'D:\\x', 'file:///D:/x'],
    [null, '/srv/a b', 'file:///srv/a%20b'],
    [null, 'C:\\x', 'file:///C:/x'],
    [null, '\\\\host\\share\\a', 'file://host/share/a'],
  ])('resolves %s and %j to %s', (base, path, uri) => {
    expect(toFileUri(path, base)).toBe(uri);
  });

  test('accepts a URL', () => {
    expect(toFileUri(new URL('file:///srv/a b'), null)).toBe('file:///srv/a%20b');
  });

  test('returns a URI of the same path', () => {
    const names = fc
      .string({ unit: 'grapheme', minLength: 1 })
      .filter((name) => !/[/\0]/.test(name) && name !== '.' && name !== '..');
    const native = (uri: string) => Buffer.from(pathFromUri(uri), 'latin1').toString();
    fc.assert(
      fc.property(names, (name) => {
        const uri = toFileUri(`./${name}`, 'file:///base');
        expect(native(uri)).toBe(`/base/${name}`);
        expect(toNativePath(uri)).toBe(`/base/${name}`);
      }),
    );
    expect(native(toFileUri('/C:/x y', 'file:///srv'))).toBe('/C:/x y');
    expect(native(toFileUri('/C:', null))).toBe('/C:');
  });

  test.each([
    ['http://host/x', 'a'],
    ['file:///x', 'a\0b'],
    ['file:///x', '\ud800'],
    ['file:///x', 'file:///a?b'],
    ['file:///x', new URL('https://host/')],
    [null, 'relative'],
  ])('rejects %s with %j', (base, path) => {
    expect(() => toFileUri(path, base)).toThrow(
      expect.objectContaining({ name: 'ClientError', kind: 'invalidInput' }),
    );
  });
});

test('asks for the default directory only for native paths', async () => {
  const cwd = async () => 'file:///srv';
  const none = () => Promise.reject(new Error('asked'));
  expect(await fileUriOf('a', cwd)).toBe('file:///srv/a');
  expect(await fileUriOf('file:///tmp', none)).toBe('file:///tmp');
  await expect(fileUriOf('a', none)).rejects.toThrow('asked');
});

test.each([
  ['file:///srv/a%20b', '/srv/a b'],
  ['file:///C:/x/y', 'C:\\x\\y'],
  ['file://host/share/a', '\\\\host\\share\\a'],
  ['file:///%FF', 'file:///%FF'],
  ['file:///%00/bad/path/L0M6', 'file:///%00/bad/path/L0M6'],
])('shows %s as %s', (uri, native) => {
  expect(toNativePath(uri)).toBe(native);
});
