// Runs the bundle of a command from its V8 code cache if there is one for this Node binary, and from its source otherwise. Compiling is a
// third of the start time. The build writes a cache beside the bundle; with another Node, the first server that a client uses, and the
// first command that uses a server, write one to the user's cache folder. `module.enableCompileCache` would store only the functions that
// run while the bundle loads, which saves half as much.
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const { join } = require('node:path');
const { Script } = require('node:vm');

/** How many caches are kept. Three are needed for each version of this program and of Node; each takes up to a megabyte. */
const MAX_CACHES = 9;
/** Far longer than writing a cache takes. */
const DRAFT_MS = 60_000;
/** Far more than a cache takes. */
const MAX_CACHE_BYTES = 16 * 1024 * 1024;
/** How long after the first session the cache is written: its first requests have been compiled then too. */
const WRITE_DELAY_MS = 1000;

/** The commands of each bundle but `main`, and the names of the files. */
const commands = BUNDLES;
const names = BUNDLE_NAMES;
const bundle = Object.keys(commands).find((name) => commands[name].includes(process.argv[2])) ?? 'main';
const bundleName = names[bundle];
const filename = join(__dirname, `${bundleName}.js`);
const isEnabled = !process.env.NODE_DISABLE_COMPILE_CACHE;
const cacheName = isEnabled ? `${bundleName}-${nodeIdentity()}.cache` : null;
const userFolder = isEnabled ? findUserFolder() : null;
const script = loadScript();
script.runInThisContext()(exports, require, module, filename, __dirname);

/**
 * The bundle is a function expression in ASCII, so that its source is in memory once, with one byte per character. The cache is
 * referenced by nothing but this function and its memory is free after the start.
 */
function loadScript() {
  const cachedData = isEnabled ? (readBuildCache() ?? readUserCache()) : undefined;
  const compiled = new Script(fs.readFileSync(filename, 'latin1'), { filename, cachedData });
  if (userFolder !== null && (cachedData === undefined || compiled.cachedDataRejected))
    writeAfterFirstSession();
  return compiled;
}

/** Writes the code cache of the functions that have run so far beside the bundle. The build calls this. */
exports.writeBuildCache = () => writeCache(__dirname, 0o644);

/**
 * Identifies the Node binary and its flags. V8 checks its own version, but not the build: Node 20.19 crashes with a cache of Node
 * 20.20. The bundle has a hash of its content in its name, because V8 compares only its length.
 */
function nodeIdentity() {
  const { size, mtimeMs } = fs.statSync(process.execPath);
  const flags = [...process.execArgv, process.env.NODE_OPTIONS ?? ''];
  const parts = [process.version, process.arch, process.execPath, size, mtimeMs, flags];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
}

function readBuildCache() {
  try {
    return fs.readFileSync(join(__dirname, cacheName));
  } catch {
    return undefined;
  }
}

/**
 * Reads the cache from the user's folder. It is code, so it is only used if this user wrote it and no other user could have: the folder
 * and the file belong to this user and are not writable by others.
 */
function readUserCache() {
  if (userFolder === null || !isPrivate(fs.lstatSync(userFolder, { throwIfNoEntry: false })))
    return undefined;
  let file;
  try {
    file = fs.openSync(join(userFolder, cacheName), fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
    const stat = fs.fstatSync(file);
    const isSafe = stat.isFile() && isPrivate(stat) && stat.size <= MAX_CACHE_BYTES;
    return isSafe ? fs.readFileSync(file) : undefined;
  } catch {
    return undefined;
  } finally {
    if (file !== undefined) fs.closeSync(file);
  }
}

/** The cache folder of this program; null if there is none, or a folder above it belongs to another user. */
function findUserFolder() {
  const { HOME, XDG_CACHE_HOME } = process.env;
  const above = XDG_CACHE_HOME ? [XDG_CACHE_HOME] : HOME ? [HOME, join(HOME, '.cache')] : [];
  const own = above.length > 0 ? join(above.at(-1), 'exec-server') : null;
  try {
    const folders = own === null ? [] : [...above, own];
    const stats = folders.map((folder) => fs.statSync(folder, { throwIfNoEntry: false }));
    const isOwn = stats[0] !== undefined && stats.every((stat) => stat === undefined || isOwned(stat));
    return isOwn && own.startsWith('/') ? join(own, 'code') : null;
  } catch {
    return null;
  }
}

function isOwned(stat) {
  return stat.uid === process.geteuid?.() && stat.isDirectory() && (stat.mode & 0o002) === 0;
}

function isPrivate(stat) {
  return stat !== undefined && stat.uid === process.geteuid?.() && (stat.mode & 0o022) === 0;
}

/** A server writes it while it runs, a command when it exits: then the functions that the first session needs have been compiled. */
function writeAfterFirstSession() {
  const write = () => {
    try {
      fs.mkdirSync(userFolder, { recursive: true, mode: 0o700 });
      if (!isPrivate(fs.lstatSync(userFolder))) return;
      writeCache(userFolder, 0o600);
      removeOldCaches();
    } catch {
      // The folder or the disk cannot be written. The program works without a cache.
    }
  };
  const later =
    bundle === 'client' ? () => process.once('exit', write) : () => setTimeout(write, WRITE_DELAY_MS).unref();
  const channel = require('node:diagnostics_channel').channel('exec-server:first-session');
  channel.subscribe(function start() {
    channel.unsubscribe(start);
    later();
  });
}

/** The rename is atomic, so a concurrent start reads a whole file or none. */
function writeCache(folder, mode) {
  const draft = join(folder, `${cacheName}.${process.pid}`);
  try {
    fs.writeFileSync(draft, script.createCachedData(), { mode, flag: 'wx' });
    fs.renameSync(draft, join(folder, cacheName));
  } catch (error) {
    fs.rmSync(draft, { force: true });
    throw error;
  }
}

/** Removes all but the newest caches, and what a program that was killed while it wrote has left. */
function removeOldCaches() {
  const files = fs
    .readdirSync(userFolder)
    .map((name) => join(userFolder, name))
    .map((file) => ({ file, written: fs.lstatSync(file).mtimeMs }));
  files.sort((a, b) => b.written - a.written);
  const caches = files.filter(({ file }) => file.endsWith('.cache'));
  const drafts = files.filter(
    ({ file, written }) => !file.endsWith('.cache') && written < Date.now() - DRAFT_MS,
  );
  for (const { file } of [...caches.slice(MAX_CACHES), ...drafts]) fs.rmSync(file, { force: true });
}
