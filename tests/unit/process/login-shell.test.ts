import { afterEach, expect, test, vi } from 'vitest';
import { loginShell } from '../../../src/process/login-shell.ts';

afterEach(() => {
  vi.unstubAllEnvs();
});

test.each([
  ['/bin/bash', ['/bin/bash', '/bin/sh'], { name: 'bash', path: '/bin/bash' }],
  ['/usr/bin/zsh', ['/usr/bin/zsh', '/bin/bash'], { name: 'zsh', path: '/usr/bin/zsh' }],
  ['/usr/bin/fish', ['/usr/bin/fish', '/bin/bash'], { name: 'bash', path: '/bin/bash' }],
  ['/gone/zsh', ['/bin/sh'], { name: 'sh', path: '/bin/sh' }],
  ['', ['/usr/bin/bash'], { name: 'bash', path: '/usr/bin/bash' }],
  [null, ['/bin/zsh', '/bin/sh'], { name: 'zsh', path: '/bin/zsh' }],
  [null, [], { name: 'sh', path: '/bin/sh' }],
])('a user with the passwd shell %s on a machine with %j gets %j', (shell, installed, expected) => {
  vi.stubEnv('SHELL', '/bin/elsewhere');
  const passwdEntry = () => (shell === null ? null : { shell, homedir: '/home/me' });
  const exists = (path: string) => (installed as string[]).includes(path);
  expect(loginShell({ passwdEntry, exists })).toEqual(expected);
});
