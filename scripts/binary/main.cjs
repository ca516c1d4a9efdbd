// The first code of the single executable. It offers the embedded files to the bundle (src/base/embedded-files.ts) and runs the bundle. The
// executable also runs as the helper of sandboxed file operations, and evaluates the escape attempts of `doctor`.
const { chmodSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const { getAssetKeys, getRawAsset } = require('node:sea');
const { Script } = require('node:vm');

const FILE_HELPER = '__file-helper';
const EVALUATE = '__evaluate';

globalThis[Symbol.for('exec-server.embedded-files')] = {
  paths: getAssetKeys(),
  read: (path) => new Uint8Array(getRawAsset(path)),
  loadNative,
  fileHelper: [FILE_HELPER],
  evaluate: [EVALUATE],
};

// Node repeats the name of the program as typed.
process.argv[1] = process.execPath;
const command = process.argv[2];
const script =
  command === EVALUATE
    ? evaluation()
    : load(command === FILE_HELPER ? 'bin/file-helper.cjs' : bundleOf(command));
// Nothing is read from this path. It is the place of the package's bundle, for stack traces.
script.runInThisContext()(
  {},
  require,
  { exports: {} },
  '/exec-server/dist/bin/main.js',
  '/exec-server/dist/bin',
);

function bundleOf(command) {
  const commands = BUNDLES;
  return `bin/${Object.keys(commands).find((name) => commands[name].includes(command)) ?? 'main'}.js`;
}

/** Loads a program, with its V8 code cache if there is one. The programs are in ASCII: a byte of their text is a character. */
function load(path) {
  const cache = `${path}.cache`;
  const cachedData = getAssetKeys().includes(cache) ? Buffer.from(getRawAsset(cache)) : undefined;
  const source = Buffer.from(getRawAsset(path)).latin1Slice();
  return new Script(source, { filename: `/exec-server/dist/${path}`, cachedData });
}

/** Like `node -e CODE ARGUMENT…`. */
function evaluation() {
  const [code, ...args] = process.argv.splice(1).slice(2);
  process.argv.push(...args);
  return new Script(`(function(exports,require){${code}\n})`, { filename: '[eval]' });
}

/**
 * Loads koffi's native module, which must be a file. It exists only while it is loaded: in a new folder that only this user can enter, so
 * no other user can replace it and nothing is left behind. Tries several places, because a file system may be read-only or noexec.
 */
function loadNative() {
  const failures = [];
  for (const place of [tmpdir(), process.env.XDG_RUNTIME_DIR, '/dev/shm', process.env.HOME]) {
    if (!place?.startsWith('/')) continue;
    try {
      return loadFrom(place);
    } catch (error) {
      failures.push(`${place}: ${error.message.split('\n', 1)[0]}`);
    }
  }
  throw new Error(
    `its file needs a folder that is writable and not mounted noexec, for example TMPDIR; tried ${failures.join('; ')}`,
  );
}

function loadFrom(place) {
  const folder = mkdtempSync(join(place, '.exec-server-'));
  try {
    chmodSync(folder, 0o700);
    const file = join(folder, 'koffi.node');
    writeFileSync(file, new Uint8Array(getRawAsset('koffi.node')), { mode: 0o600, flag: 'wx' });
    const target = { exports: {} };
    process.dlopen(target, file);
    return target.exports;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
