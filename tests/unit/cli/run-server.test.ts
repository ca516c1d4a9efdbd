import { readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, expect, test, vi } from 'vitest';
import type { Host } from '../../../src/cli/commands.ts';
import { SERVER_FAILURES } from '../../../src/cli/failures.ts';
import { runServer } from '../../../src/cli/run-server.ts';
import { publishFile } from '../../../src/cli/runtime-files.ts';
import { parseServerArguments } from '../../../src/cli/server-arguments.ts';
import { loadSettings } from '../../../src/cli/settings.ts';
import type { RunningServer } from '../../../src/server/serve.ts';
import { bufferedText } from '../../support/buffered-text.ts';
import { Workspace } from './run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

/** A host whose server the test controls. */
class FakeHost implements Host {
  readonly env = {};
  debug = false;
  failures = SERVER_FAILURES;
  isTerminal = false;
  surviveHangup(): void {}
  readonly stdin = new PassThrough();
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly cleanups: (() => void)[] = [];
  readonly exit = vi.fn();
  readonly close = vi.fn<(reason?: string) => Promise<void>>(async () => this.end());
  readonly server = {
    serve: vi.fn(() => this.#started),
    serveStdio: vi.fn(() => this.#started),
    beforeRequests: () => {},
  };
  readonly reload = vi.fn(async () => false);
  readonly drain = vi.fn(async () => this.end());
  drainSignal: () => void = () => {};
  signal: (name: string) => void = () => {};
  end: () => void = () => {};
  #comeUp: (server: RunningServer) => void = () => {};
  readonly #started = new Promise<RunningServer>((resolve) => {
    this.#comeUp = resolve;
  });
  readonly #closed = new Promise<void>((resolve) => {
    this.end = resolve;
  });

  onSignal(listener: (signal: string) => void): void {
    this.signal = listener;
  }

  onDrainSignal(listener: () => void): void {
    this.drainSignal = listener;
  }

  onExit(cleanup: () => void): void {
    this.cleanups.push(cleanup);
  }

  /** Lets the server come up. */
  up(url: string | null = 'ws://127.0.0.1:4000'): void {
    const { close, reload } = this;
    const dispose = async () => {};
    this.#comeUp({
      url,
      metricsUrl: null,
      closed: this.#closed,
      close,
      drain: this.drain,
      drainStatus: () => null,
      reload,
      accept: vi.fn(),
      isIdle: () => false,
      consoleLink: () => null,
      [Symbol.asyncDispose]: dispose,
    });
  }

  printed(stream: 'stdout' | 'stderr' = 'stdout'): string {
    return bufferedText(this[stream]);
  }
}

async function run(host: FakeHost, ...argv: string[]): Promise<number> {
  const args = parseServerArguments(argv);
  return runServer(await loadSettings(args, { HOME: workspace.path }), args, host, host.server);
}

test('prints the URL once the server is up, and returns when the server ends', async () => {
  const host = new FakeHost();
  const code = run(host);
  await vi.waitFor(() => expect(host.server.serve).toHaveBeenCalledOnce());
  expect(host.printed()).toBe('');
  host.up();
  await vi.waitFor(() => expect(host.stdout.readableLength).toBeGreaterThan(0));
  expect(host.printed()).toBe('ws://127.0.0.1:4000\n');
  host.end();
  expect(await code).toBe(0);
  expect(host.close).not.toHaveBeenCalled();
});

test('serves stdin and stdout on stdio, and prints nothing', async () => {
  const host = new FakeHost();
  host.up(null);
  const code = run(host, '--transport', 'stdio');
  await vi.waitFor(() => expect(host.server.serveStdio).toHaveBeenCalledOnce());
  expect(host.server.serveStdio).toHaveBeenCalledWith(
    expect.objectContaining({ listen: 'stdio' }),
    host.stdin,
    host.stdout,
  );
  host.end();
  expect(await code).toBe(0);
  expect(host.printed()).toBe('');
});

test.each(['SIGTERM', 'SIGINT', 'the terminal was closed'])(
  '%s closes the server and exits 0',
  async (signal) => {
    const host = new FakeHost();
    host.up();
    const code = run(host);
    await vi.waitFor(() => expect(host.stdout.readableLength).toBeGreaterThan(0));
    host.signal(signal);
    expect(await code).toBe(0);
    expect(host.close).toHaveBeenCalledExactlyOnceWith(`the server is shutting down (${signal})`);
  },
);

test.each([true, false])('SIGHUP never ends a server, with files to reload: %s', async (hasFiles) => {
  const host = new FakeHost();
  host.reload.mockResolvedValue(hasFiles);
  host.up();
  const code = run(host);
  await vi.waitFor(() => expect(host.stdout.readableLength).toBeGreaterThan(0));
  host.signal('SIGHUP');
  host.signal('SIGHUP');
  await vi.waitFor(() => expect(host.reload).toHaveBeenCalledTimes(2));
  expect(host.close).not.toHaveBeenCalled();
  host.signal('SIGTERM');
  host.signal('SIGHUP');
  expect(await code).toBe(0);
  expect(host.reload).toHaveBeenCalledTimes(2);
  expect(host.exit).not.toHaveBeenCalled();
});

test('a signal during the start closes the server once it is up', async () => {
  const host = new FakeHost();
  const code = run(host);
  await vi.waitFor(() => expect(host.server.serve).toHaveBeenCalledOnce());
  host.signal('SIGTERM');
  expect(host.close).not.toHaveBeenCalled();
  host.up();
  expect(await code).toBe(0);
  expect(host.close).toHaveBeenCalledOnce();
});

test('a second signal ends the process immediately', async () => {
  const host = new FakeHost();
  host.close.mockImplementation(() => new Promise(() => {}));
  host.up();
  void run(host);
  await vi.waitFor(() => expect(host.stdout.readableLength).toBeGreaterThan(0));
  host.signal('SIGTERM');
  expect(host.exit).not.toHaveBeenCalled();
  host.signal('SIGINT');
  expect(host.exit).toHaveBeenCalledExactlyOnceWith(1);
  expect(host.close).toHaveBeenCalledOnce();
  expect(host.printed('stderr')).toBe('exec-server: stopped immediately by a second signal (SIGINT)\n');
});

test('closes the server when a stdio client stops reading', async () => {
  const host = new FakeHost();
  host.up(null);
  const code = run(host, '--listen', 'stdio');
  await vi.waitFor(() => expect(host.server.serveStdio).toHaveBeenCalledOnce());
  await new Promise(setImmediate);
  host.stdout.destroy(new Error('EPIPE'));
  expect(await code).toBe(0);
  expect(host.close).toHaveBeenCalledExactlyOnceWith('stdout is closed');
});

test('keeps serving when the log reader goes away', async () => {
  const host = new FakeHost();
  host.up();
  const code = run(host);
  await vi.waitFor(() => expect(host.stdout.readableLength).toBeGreaterThan(0));
  host.stderr.destroy(new Error('EPIPE'));
  await new Promise(setImmediate);
  host.end();
  expect(await code).toBe(0);
});

test('writes the files before it prints the URL, and removes them on exit', async () => {
  const host = new FakeHost();
  const [url, pid] = [join(workspace.path, 'url'), join(workspace.path, 'pid')];
  host.up();
  const code = run(host, '--url-file', url, '--pid-file', pid);
  const written = new Promise((resolve) => {
    host.stdout.once('data', () => resolve([readFileSync(url, 'utf8'), readFileSync(pid, 'utf8')]));
  });
  expect(await written).toEqual(['ws://127.0.0.1:4000\n', `${process.pid}\n`]);
  host.end();
  expect(await code).toBe(0);
  for (const cleanup of host.cleanups) cleanup();
  expect(() => readFileSync(url)).toThrow('ENOENT');
  expect(() => readFileSync(pid)).toThrow('ENOENT');
});

test('closes the server when a file cannot be written', async () => {
  const host = new FakeHost();
  host.up();
  await expect(run(host, '--pid-file', join(workspace.path, 'absent', 'pid'))).rejects.toThrow(
    'its directory does not exist (create it, or choose another path)',
  );
  expect(host.close).toHaveBeenCalledOnce();
  expect(host.printed()).toBe('');
});

test.each([
  [['--listen', 'stdio', '--url-file', 'u'], "--url-file needs a websocket listener; 'stdio' has no URL"],
  [
    ['--url-file', 'u', '--pid-file', './u'],
    '--url-file and --pid-file name the same file; give each its own',
  ],
])('rejects %j before anything starts', async (argv, message) => {
  const host = new FakeHost();
  await expect(run(host, ...argv)).rejects.toThrow(expect.objectContaining({ name: 'UsageError', message }));
  expect(host.server.serve).not.toHaveBeenCalled();
  expect(host.server.serveStdio).not.toHaveBeenCalled();
});

test('replaces a stale file, and leaves a file that another process wrote since', () => {
  const path = workspace.file('stale', 'old');
  const remove = publishFile('--pid-file', path, 'mine');
  expect(readFileSync(path, 'utf8')).toBe('mine');
  workspace.file('stale', 'theirs');
  remove();
  expect(readFileSync(path, 'utf8')).toBe('theirs');
});

test('does not replace devices and links', () => {
  const link = join(workspace.path, 'link');
  symlinkSync('/dev/null', link);
  for (const path of ['/dev/null', link, workspace.path]) {
    expect(() => publishFile('--url-file', path, 'x')).toThrow('it exists and is not a regular file');
  }
});

test('drains when it is asked to, also before the server is up, and still ends with a signal', async () => {
  const host = new FakeHost();
  host.drain.mockImplementation(async () => {});
  const code = run(host);
  await vi.waitFor(() => expect(host.server.serve).toHaveBeenCalledOnce());
  host.drainSignal();
  expect(host.drain).not.toHaveBeenCalled();
  host.up();
  await vi.waitFor(() => expect(host.drain).toHaveBeenCalledOnce());
  expect(host.close).not.toHaveBeenCalled();
  host.signal('SIGTERM');
  expect(await code).toBe(0);
  expect(host.close).toHaveBeenCalledExactlyOnceWith('the server is shutting down (SIGTERM)');
});
