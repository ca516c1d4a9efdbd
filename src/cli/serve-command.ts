import type { ServeOptions } from '../server/exec-server.ts';
import type { RunningServer } from '../server/serve.ts';
import type { CommandResult, Host } from './commands.ts';
import { takePassedSocket } from './passed-socket.ts';
import { hideOwnEnvironment, planThreadPool, startThreadPool } from './process-setup.ts';
import { reportIgnored, reportUnknownVariables } from './reference-flags.ts';
import { parseServerArguments, type ServerArguments } from './server-arguments.ts';

/** Serves until a signal arrives or the transport ends. Without `command`, the arguments may name `config` instead. */
export async function serveCommand(
  argv: readonly string[],
  host: Host,
  command: 'serve' | null = 'serve',
): Promise<CommandResult> {
  host.surviveHangup();
  const args = parseServerArguments(argv, command);
  if (args.command !== 'serve') {
    const { printSettings } = await import('./config-command.ts');
    return printSettings(args, host);
  }
  return serveArguments(args, host, {}, (server) => server);
}

/** Serves what the arguments ask for. `started` gets the server before its URL is printed. */
export async function serveArguments(
  args: ServerArguments,
  host: Host,
  options: ServeOptions,
  started: (server: Promise<RunningServer>) => Promise<RunningServer>,
): Promise<CommandResult> {
  reportIgnored(args.warnings, host);
  planThreadPool(host.env);
  const descriptor = takePassedSocket(host.env);
  hideOwnEnvironment();
  const { loadSettings } = await import('./settings.ts');
  const settings = await loadSettings(args, host.env);
  reportUnknownVariables(settings, host);
  host.debug = settings.config.logLevel === 'debug';
  const [{ runServer }, server] = await Promise.all([
    import('./run-server.ts'),
    import('../server/serve.ts'),
  ]);
  const exitCode = await runServer(settings, args, host, {
    serve: (config) => started(server.serve(config, { ...options, descriptor })),
    serveStdio: server.serveStdio,
    beforeRequests: () => startThreadPool(host.env),
  });
  return { text: '', exitCode };
}
