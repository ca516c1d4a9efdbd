import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { joinFolder, shellCommand, shellKind } from '../../../../src/agent/launch/command.ts';
import { pathFromUri } from '../../../../src/files/path-uri.ts';

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

describe('joinFolder', () => {
  test.each([
    ['file:///srv/ws', '', 'file:///srv/ws'],
    ['file:///srv/ws', 'a/b', 'file:///srv/ws/a/b'],
    ['file:///srv/ws/', './a/', 'file:///srv/ws/a'],
    ['file:///srv/ws', '../x', 'file:///srv/x'],
    ['file:///srv/ws', '../../../..', 'file:///'],
    ['file:///srv/ws', '/tmp', 'file:///tmp'],
    ['file:///srv/ws', '/', 'file:///'],
    ['file:///srv/with%20space', 'é ?#%41\\', 'file:///srv/with%20space/%C3%A9%20%3F%23%2541%5C'],
    ['file:///C:/ws', 'a\\b', 'file:///C:/ws/a/b'],
    ['file:///C:/ws', '..\\..\\..', 'file:///C:'],
    ['file:///C:/ws', 'D:\\x', 'file:///D:/x'],
    ['file:///C:/ws', '\\x', 'file:///C:/x'],
  ])('joins %s and %j to %s', (base, folder, joined) => {
    expect(joinFolder(base, folder)).toBe(joined);
  });

  test('returns a URI of the same path', () => {
    const names = fc
      .string({ unit: 'grapheme', minLength: 1 })
      .filter((name) => !/[/\0]/.test(name) && name !== '.' && name !== '..');
    fc.assert(
      fc.property(names, (name) => {
        const path = Buffer.from(pathFromUri(joinFolder('file:///base', name)), 'latin1').toString();
        expect(path).toBe(`/base/${name}`);
      }),
    );
  });

  test.each([
    ['http://host/x', 'a'],
    ['file:///x', 'a\0b'],
    ['file:///x', '\ud800'],
  ])('rejects %s with %j', (base, folder) => {
    expect(() => joinFolder(base, folder)).toThrow(TypeError);
  });
});
