import { lstat } from 'node:fs/promises';
import { constants } from 'node:os';
import { resolve } from 'node:path';
import { onAbort } from '../base/abort.ts';
import type { ExecServerClient } from '../client/client.ts';
import { type ClientError, messageWithoutHint } from '../client/errors.ts';
import { failedWith } from '../client/files/file-errors.ts';
import {
  childPath,
  isWithin,
  lastName,
  type NativePath,
  nativePathOfText,
  parentPath,
  systemPath,
} from '../files/native-path.ts';
import { pathFromUri, uriFromPath } from '../files/path-uri.ts';
import { quoteValue } from '../server/config/values.ts';
import type { CommandResult, Host } from './commands.ts';
import { currentDirectory } from './environments/current-directory.ts';
import { findTarget } from './environments/target.ts';
import { PROGRAM_EXIT_CODES, RunError, UsageError } from './failures.ts';
import { colonHint, type FileOperand, homeOf, namedBy, parseOperand, uriThere } from './files/operands.ts';
import { type GivenFlags, parseFlags } from './flags.ts';
import { SYNC_FLAGS } from './specs/sync-spec.ts';
import { LocalSide } from './sync/local-side.ts';
import { RemoteSide } from './sync/remote-side.ts';
import { Report } from './sync/report.ts';
import { isConnectionLoss } from './sync/scan.ts';
import { type Sides, Sync, type SyncOptions } from './sync/sync.ts';
import { type Session, syncAndWatch } from './sync/watch.ts';

/** Makes a directory equal to another one, on this machine and in an environment. */
export async function syncCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('sync', argv, SYNC_FLAGS, 'files');
  const operands = operandsOf(positionals);
  const {
    watch = false,
    json = false,
    'dry-run': dryRun = false,
    delete: deletes = false,
    exclude = [],
  } = flags;
  if (watch && dryRun) throw new UsageError('--dry-run does nothing, so there is nothing to --watch', 'sync');
  const interruption = interruptionOf(host);
  const { signal } = interruption;
  const report = new Report(host, { json, dryRun, watch });
  const options: SyncOptions = { deletes, dryRun, excludes: exclude };
  const open = await opener(operands, flags, host, signal);
  try {
    if (watch) {
      await syncAndWatch({ open, options, report, signal });
      return { text: '', exitCode: 0 };
    }
    const session = await open();
    try {
      await new Sync(session.sides, options, report).all('start');
    } finally {
      await session.close();
    }
  } catch (error) {
    if (!signal.aborted) throw isConnectionLoss(error) ? lostServer(error as ClientError) : error;
    if (watch) return { text: '', exitCode: 0 };
    throw new RunError(`interrupted; ${CONTINUE}`, {
      kind: 'interrupted',
      exitCode: interruption.exitCode(),
    });
  }
  const { failed, skipped } = report.tally;
  return { text: '', exitCode: failed + skipped > 0 ? PROGRAM_EXIT_CODES.failure.code : 0 };
}

/** How to continue what was not finished. */
const CONTINUE = 'every file that was copied is complete; run the same command to continue';

function lostServer(error: ClientError): RunError {
  return new RunError(`lost the server: ${messageWithoutHint(error)}; ${CONTINUE}`, { kind: error.kind });
}

/** The source and the destination. One is on this machine. */
interface Operands {
  readonly source: FileOperand;
  readonly destination: FileOperand;
}

function operandsOf(positionals: readonly string[]): Operands {
  if (positionals.length !== 2) throw new UsageError('expected two directories, SRC and DST', 'sync');
  const [source, destination] = positionals.map((text) => parseOperand(text, 'sync')) as [
    FileOperand,
    FileOperand,
  ];
  for (const { text, path } of [source, destination]) {
    if (path === '')
      throw new UsageError(`${quoteValue(text)} needs a path after the colon, such as ${text}/srv`, 'sync');
  }
  if ((source.environment === null) === (destination.environment === null)) {
    const both = source.environment === null ? 'both are on this machine' : 'both are in an environment';
    throw new UsageError(
      `one of SRC and DST must be ENV:/PATH and the other a path of this machine; ${both}`,
      'sync',
    );
  }
  return { source, destination };
}

/** Aborts at the first signal. The second one ends the process. */
function interruptionOf(host: Host) {
  const controller = new AbortController();
  let code = 0;
  host.onSignal((name) => {
    const number = constants.signals[name as NodeJS.Signals] ?? constants.signals.SIGHUP;
    if (controller.signal.aborted) host.exit(128 + number);
    code = 128 + number;
    controller.abort();
  });
  return { signal: controller.signal, exitCode: () => code };
}

/** Returns a function that connects and finds both directories. */
async function opener(
  { source, destination }: Operands,
  flags: GivenFlags<typeof SYNC_FLAGS>,
  host: Host,
  signal: AbortSignal,
): Promise<() => Promise<Session>> {
  const there = source.environment === null ? destination : source;
  const target = await findTarget(
    {
      ...(there.environment ? namedBy(there) : { environment: flags.environment ?? null }),
      tokenFile: flags['token-file'] ?? null,
    },
    { env: host.env, directory: currentDirectory() },
  ).catch((error: unknown) => {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(`${error.message}${colonHint(there)}`, 'sync');
  });
  return async () => {
    const whileDraining = there === source;
    const client = await target.connect({ clientName: 'exec-server sync', signal, whileDraining });
    const ending = new AbortController();
    let stop = () => {};
    const close = async () => {
      stop();
      ending.abort();
      await client.close();
    };
    try {
      signal.throwIfAborted();
      stop = onAbort(signal, () => ending.abort());
      requireCapabilities(client, target.name);
      const sides = await sidesOf(source, destination, client, ending.signal);
      return { client, sides, close };
    } catch (error) {
      await close();
      throw error;
    }
  };
}

async function sidesOf(
  source: FileOperand,
  destination: FileOperand,
  client: ExecServerClient,
  signal: AbortSignal,
): Promise<Sides> {
  const rootOf = async ({ environment, path }: FileOperand) =>
    environment === null
      ? nativePathOfText(resolve(path))
      : pathFromUri(uriThere(path, await homeOf(client, signal)));
  const sideAt = ({ text, environment, path }: FileOperand, root: NativePath) =>
    environment === null ? new LocalSide(path, root, signal) : new RemoteSide(text, root, client, signal);
  const from = sideAt(source, await rootOf(source));
  const givenRoot = await rootOf(destination);
  const to = sideAt(destination, givenRoot);
  const fromRoot = await from.realRoot().catch((error: unknown) => {
    if (!failedWith(error, 'notFound', 'notDirectory')) throw error;
    throw new RunError(`SRC ${quoteValue(from.name)} does not exist; check the path`, { kind: 'notFound' });
  });
  if (!(await from.isDirectory(''))) {
    throw new RunError(`${quoteValue(from.name)} is no directory; 'exec-server cp' copies files`, {
      kind: 'notDirectory',
    });
  }
  const toRoot = await to.realRoot().catch((error: unknown) => {
    if (failedWith(error, 'notFound')) return null;
    if (!failedWith(error, 'notDirectory')) throw error;
    throw new RunError(
      `DST ${quoteValue(to.name)} cannot be created, because a file has the name of a directory above it; choose another path`,
      { kind: 'notDirectory' },
    );
  });
  if (toRoot !== null && !(await to.isDirectory(''))) {
    throw new RunError(`DST ${quoteValue(to.name)} is no directory; choose another path, or remove it`, {
      kind: 'notDirectory',
    });
  }
  const toPath =
    toRoot ?? (await realPathOfMissing(givenRoot, (path) => sideAt(destination, path).realRoot()));
  const isNested = isWithin(toPath, fromRoot) || isWithin(fromRoot, toPath);
  if (isNested && (await isSameMachine(fromRoot, client, signal))) {
    throw new RunError(
      'SRC and DST are on the same machine, and one contains the other; use another directory',
      {
        kind: 'nested',
      },
    );
  }
  return { source: from, destination: to, remote: from instanceof RemoteSide ? from : to };
}

/**
 * The path, without links, that a missing directory has once it is created. A directory that this user or token may not look at
 * counts as one without links.
 */
async function realPathOfMissing(
  path: NativePath,
  realPath: (path: NativePath) => Promise<NativePath>,
): Promise<NativePath> {
  const parent = parentPath(path);
  const real = await realPath(parent).catch((error: unknown) => {
    if (failedWith(error, 'notFound')) return realPathOfMissing(parent, realPath);
    if (failedWith(error, 'permissionDenied')) return parent;
    throw error;
  });
  return childPath(real, lastName(path));
}

/** Whether a directory is the same on this machine and on the server: it has the same times in both. */
async function isSameMachine(
  path: NativePath,
  client: ExecServerClient,
  signal: AbortSignal,
): Promise<boolean> {
  const own = await lstat(systemPath(path)).catch(() => null);
  const theirs = await client.files.fileSystem.getMetadata(uriFromPath(path), { signal }).catch(() => null);
  if (own === null || theirs === null) return false;
  return (
    Math.floor(own.birthtimeMs) === theirs.createdAtMs && Math.floor(own.mtimeMs) === theirs.modifiedAtMs
  );
}

function requireCapabilities({ capabilities }: ExecServerClient, name: string): void {
  const missing = (['fsAttributes', 'fsHash', 'fileWriteStreaming'] as const).filter(
    (capability) => !capabilities[capability],
  );
  if (missing.length === 0) return;
  throw new RunError(`the server of ${name} cannot synchronize: it lacks ${missing.join(', ')}; update it`, {
    kind: 'unsupported',
  });
}
