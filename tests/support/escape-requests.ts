/** A file request that must have no effect and show no secret. `W` and `O` stand for the workspace and the directory beside it. */
interface FileAttempt {
  readonly name: string;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

export const written = { dataBase64: Buffer.from('escaped').toString('base64') };

function writing(name: string, path: string): FileAttempt {
  return { name, method: 'fs/writeFile', params: { path, ...written } };
}

function making(name: string, path: string): FileAttempt {
  return { name, method: 'fs/createDirectory', params: { path, recursive: true } };
}

function removing(name: string, path: string, recursive = false): FileAttempt {
  return { name, method: 'fs/remove', params: { path, ...(recursive && { recursive }) } };
}

function copying(name: string, sourcePath: string, destinationPath: string, recursive = false): FileAttempt {
  return { name, method: 'fs/copy', params: { sourcePath, destinationPath, recursive } };
}

function moving(name: string, sourcePath: string, destinationPath: string): FileAttempt {
  return { name, method: 'fs/rename', params: { sourcePath, destinationPath } };
}

function setting(name: string, path: string): FileAttempt {
  return { name, method: 'fs/setAttributes', params: { path, mode: 0o777, modifiedAtMs: 0 } };
}

function linking(name: string, path: string, replace = false): FileAttempt {
  return { name, method: 'fs/createLink', params: { path, target: '/', replace } };
}

export const FORBIDDEN_WRITES: readonly FileAttempt[] = [
  writing('a file outside', 'file://O/target'),
  writing('a new file outside', 'file://O/new'),
  writing('two dots', 'file://W/../outside/target'),
  writing('two dots in other characters', 'file://W/%2e%2e/outside/target'),
  writing('a slash in other characters', 'file://W/..%2Foutside%2Ftarget'),
  writing('two slashes', 'file://W//..//outside//new'),
  writing('a host name', 'file://localhostW/../outside/new'),
  writing('a link to a file', 'file://W/to-target'),
  writing('a link to a directory', 'file://W/to-outside/new'),
  writing('a link to nothing', 'file://W/to-new'),
  writing('a link to a link', 'file://W/to-link/new'),
  writing('the root of the process', 'file:///proc/self/rootO/new'),
  writing('the root of the first process', 'file:///proc/1/rootO/new'),
  writing('a protected file', 'file://W/.git/config'),
  writing('a new protected file', 'file://W/.git/hooks/pre-commit'),
  writing('a protected file with a detour', 'file://W/tree/../.git/./config'),
  writing('a link to a protected directory', 'file://W/to-git/config'),
  writing('a name that must not come to exist', 'file://W/.codex'),
  writing('a link to a name that must not come to exist', 'file://W/to-codex'),
  writing('a name in the directory by another name', 'file://W/itself/.codex'),
  writing('what must not come to exist', 'file://W/later/file'),
  writing('what must not come to exist, by a link', 'file://W/to-later/file'),
  writing('a read-only file', 'file://W/tree/carved/file'),
  writing('a denied file', 'file://W/hidden.txt'),
  writing('a file in a denied directory', 'file://W/denied/new'),
  writing('the program of the helper', 'file:///dev/.exec-server/node'),
  writing('a setting of the kernel', 'file:///proc/sys/kernel/core_pattern'),
  writing('the memory of the helper', 'file:///proc/self/mem'),
  writing('its input', 'file:///proc/self/fd/0'),
  making('a directory outside', 'file://O/new/deep'),
  making('a directory behind a link', 'file://W/to-outside/new/deep'),
  making('a protected directory', 'file://W/.codex/deep'),
  making('a protected directory by another name', 'file://W/itself/.codex/deep'),
  making('a protected directory by itself', 'file://W/.agents'),
  removing('removing a file outside', 'file://O/target'),
  removing('removing a directory outside', 'file://O', true),
  removing('removing behind a link', 'file://W/to-outside/target'),
  removing('removing a protected directory', 'file://W/.git', true),
  copying('copying over a file outside', 'file://W/own', 'file://O/target'),
  copying('copying to a protected name', 'file://W/own', 'file://W/.codex'),
  copying('copying a directory to a protected name', 'file://W/evil', 'file://W/.codex', true),
  copying('copying a directory that has a protected name in it', 'file://W/evil', 'file://W', true),
  copying('copying a directory behind a link', 'file://W/evil', 'file://W/itself', true),
  copying('copying a directory out', 'file://W/evil', 'file://W/to-outside/new', true),
  copying('copying a denied file', 'file://W/hidden.txt', 'file://W/shown'),
  copying('copying a denied directory', 'file://W/denied', 'file://W/shown-too', true),
  moving('moving out', 'file://W/own', 'file://O/new'),
  moving('moving in', 'file://O/target', 'file://W/target'),
  moving('moving to a protected name', 'file://W/evil', 'file://W/.codex'),
  moving('moving to a protected name behind a link', 'file://W/evil', 'file://W/itself/.codex'),
  moving('moving a protected directory away', 'file://W/.git', 'file://W/git'),
  moving('moving the parent of a read-only directory', 'file://W/tree', 'file://W/moved'),
  moving('moving the parent of what must not come to exist', 'file://W/later', 'file://W/now'),
  moving('moving a directory of files that a pattern denies', 'file://W/keys', 'file://W/open-keys'),
  moving('moving a denied file', 'file://W/hidden.txt', 'file://W/shown'),
  setting('the mode of a file outside', 'file://O/target'),
  setting('the mode of a file behind a link', 'file://W/to-outside/target'),
  setting('the mode of the target of a link', 'file://W/to-target'),
  setting('the mode of a protected file', 'file://W/.git/config'),
  setting('the mode of a protected directory', 'file://W/.git'),
  setting('the mode of a read-only file', 'file://W/tree/carved/file'),
  setting('the mode of a denied file', 'file://W/hidden.txt'),
  setting('the mode of a name that must not come to exist', 'file://W/.codex'),
  setting('the mode of a file of the helper', 'file:///dev/.exec-server/node'),
  linking('a link outside', 'file://O/new'),
  linking('a link behind a link', 'file://W/to-outside/new'),
  linking('a link instead of a file outside', 'file://O/target', true),
  linking('a link with a name that must not come to exist', 'file://W/.codex'),
  linking('a link with such a name, replacing', 'file://W/.codex', true),
  linking('a link with such a name, in the directory by another name', 'file://W/itself/.codex', true),
  linking('a link instead of a protected directory', 'file://W/.git', true),
  linking('a link in a protected directory', 'file://W/.git/new'),
  linking('a link instead of a denied file', 'file://W/hidden.txt', true),
];

export const FORBIDDEN_READS: readonly FileAttempt[] = [
  ...[
    'file://W/hidden.txt',
    'file://W/denied/file',
    'file://W/keys/a.pem',
    'file://W/open-keys/a.pem',
    'file://W/tree/deep/.env',
    'file://W/./tree/..//hidden.txt',
    'file://W/%68idden.txt',
    'file://W/to-hidden',
    'file:///proc/self/rootW/hidden.txt',
    'file:///proc/self/environ',
    'file:///proc/1/environ',
    'file://W/shown',
    'file://W/shown-too/file',
  ].map((path) => ({ name: `reading ${path}`, method: 'fs/readFile', params: { path } })),
  { name: 'listing a denied directory', method: 'fs/readDirectory', params: { path: 'file://W/denied' } },
  {
    name: 'walking through everything',
    method: 'fs/walk',
    params: { path: 'file://W', maxDepth: 5, maxEntries: 1000 },
  },
  {
    name: 'listing with attributes',
    method: 'fs/list',
    params: { paths: ['file://W/denied', 'file:///proc/self/rootW/denied'], recursive: true },
  },
  {
    name: 'hashing a hidden file',
    method: 'fs/hash',
    params: { paths: ['file://W/hidden.txt', 'file://W/to-hidden', 'file:///proc/self/rootW/hidden.txt'] },
  },
  {
    name: 'looking for a secret',
    method: 'fs/search',
    params: { path: 'file://W', pattern: 'secret.of.the' },
  },
  {
    name: 'watching a denied directory',
    method: 'fs/watch',
    params: { watchId: 'w', path: 'file://W/denied' },
  },
  {
    name: 'what a denied directory offers',
    method: 'capabilityRoots/discoverV1',
    params: { roots: [{ id: 'r', path: 'file://W/denied' }] },
  },
];
