import { type Arguments, parseArguments } from './arguments.ts';
import { RunError, reportFailure } from './failures.ts';
import { hideOwnEnvironment } from './own-environment.ts';
import { listenForSignals } from './signals.ts';
import { planThreadPool, startThreadPool } from './thread-pool.ts';

/** Set once the log level is known: whether unexpected errors are shown with their stack. */
let debug = false;

// A reader that goes away wants no more; that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') fail(new RunError(`cannot write to stdout: ${error.message}`));
});
process.on('uncaughtException', fail);
main().catch(fail);

async function main(): Promise<void> {
  const argv = process.argv.slice(2);
  if (argv[0] === 'token') {
    const { tokenCommand } = await import('./token-command.ts');
    process.stdout.write(tokenCommand(argv.slice(1)));
    return;
  }
  if (argv[0] === 'audit') {
    const { auditCommand } = await import('./audit-command.ts');
    process.stdout.write(await auditCommand(argv.slice(1)));
    return;
  }
  if (argv[0] === 'doctor') {
    const { doctorCommand } = await import('./doctor-command.ts');
    const { text, exitCode } = await doctorCommand(argv.slice(1), process.env);
    process.exitCode = exitCode;
    process.stdout.write(text);
    return;
  }
  if (argv[0] === 'relay') {
    await relay(argv.slice(1));
    return;
  }
  if (argv[0] === 'forward') {
    await forward(argv.slice(1));
    return;
  }
  const args = parseArguments(argv);
  switch (args.command) {
    case 'help': {
      const { helpText } = await import('./help.ts');
      process.stdout.write(helpText());
      return;
    }
    case 'version': {
      const { VERSION } = await import('../observability/version.ts');
      process.stdout.write(`exec-server ${VERSION}\n`);
      return;
    }
    case 'config': {
      const [{ loadSettings }, { settingsJson, settingsTable }] = await Promise.all([
        import('./settings.ts'),
        import('./config-command.ts'),
      ]);
      const settings = await loadSettings(args, process.env);
      process.stdout.write(args.json ? settingsJson(settings) : settingsTable(settings));
      return;
    }
    case 'serve':
      process.exit(await serveUntilStopped(args));
  }
}

async function relay(argv: readonly string[]): Promise<void> {
  hideOwnEnvironment();
  const { relayCommand } = await import('./relay-command.ts');
  const result = await relayCommand(argv, {
    env: process.env,
    stdout: process.stdout,
    stderr: lastingStderr(),
    onSignal: (listener) => listenForSignals(process, listener),
    exit: (code) => process.exit(code),
  });
  if (typeof result === 'number') process.exit(result);
  process.stdout.write(result);
}

async function forward(argv: readonly string[]): Promise<void> {
  hideOwnEnvironment();
  const { forwardCommand } = await import('./forward-command.ts');
  const text = await forwardCommand(argv, {
    env: process.env,
    get stdin() {
      return process.stdin;
    },
    stderr: lastingStderr(),
    onSignal: (listener) => listenForSignals(process, listener),
  });
  process.stdout.write(text, () => process.exit());
}

async function serveUntilStopped(args: Arguments): Promise<number> {
  planThreadPool(process.env);
  hideOwnEnvironment();
  const { loadSettings } = await import('./settings.ts');
  const settings = await loadSettings(args, process.env);
  debug = settings.config.logLevel === 'debug';
  const [{ runServer }, server] = await Promise.all([
    import('./run-server.ts'),
    import('../server/serve.ts'),
  ]);
  return runServer(settings, args, {
    server,
    env: process.env,
    // Getters, because touching a standard stream opens it: stdin only where it is the transport, stderr off the way to the URL.
    get stdin() {
      return process.stdin;
    },
    stdout: process.stdout,
    get stderr() {
      return process.stderr;
    },
    onSignal: (listener) => listenForSignals(process, listener),
    onExit: (cleanup) => process.on('exit', cleanup),
    beforeRequests: () => startThreadPool(process.env),
    exit: (code) => process.exit(code),
  });
}

/** Logging to a reader that went away is no reason to stop. */
function lastingStderr(): NodeJS.WriteStream {
  return process.stderr.on('error', () => {});
}

/** Every failure ends here, thrown or emitted, expected or not. */
function fail(error: unknown): never {
  const { text, exitCode } = reportFailure(error, debug);
  process.stderr.write(`${text}\n`);
  process.exit(exitCode);
}
