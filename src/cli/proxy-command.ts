import { MAX_MESSAGE_BYTES } from '../client/limits.ts';
import { StdioTransport } from '../transport/stdio.ts';
import { connectWebSocket } from '../transport/websocket.ts';
import type { CommandResult, Host } from './commands.ts';
import { parseOnlyFlags } from './flags.ts';
import { joinTransports } from './join-transports.ts';
import { reachPrivateServer } from './private-server/reach-private-server.ts';
import { PROXY } from './specs/environment-specs.ts';

/** Connects stdin and stdout with this machine's private server, until either ends. */
export async function proxyCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  parseOnlyFlags('proxy', argv, PROXY.flags);
  const limits = { maxMessageBytes: MAX_MESSAGE_BYTES };
  const { result: server } = await reachPrivateServer(host.env, (url) => connectWebSocket(url, limits));
  await joinTransports(new StdioTransport(host.stdin, host.stdout, limits), server);
  return { text: '', exitCode: 0 };
}
