import { MAX_MESSAGE_BYTES } from '../client/limits.ts';
import { StdioTransport } from '../transport/stdio.ts';
import { connectWebSocket } from '../transport/websocket.ts';
import type { CommandResult, Host } from './commands.ts';
import { RunError } from './failures.ts';
import { parseOnlyFlags } from './flags.ts';
import { joinTransports } from './join-transports.ts';
import { reachPrivateServer } from './private-server/reach-private-server.ts';
import { PROXY } from './specs/environment-specs.ts';

/**
 * Connects stdin and stdout with this machine's private server, until either ends. After the end of stdin it waits for answers. Rejects with
 * RunError when requests are left.
 */
export async function proxyCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  parseOnlyFlags('proxy', argv, PROXY.flags);
  const limits = { maxMessageBytes: MAX_MESSAGE_BYTES };
  const { result: server } = await reachPrivateServer(host.env, (url) => connectWebSocket(url, limits));
  const client = new StdioTransport(host.stdin, host.stdout, limits);
  const unanswered = await joinTransports(client, server, { answerTimeoutMs: ANSWER_TIMEOUT_MS });
  if (unanswered === 0) return { text: '', exitCode: 0 };
  const requests = unanswered === 1 ? 'one request is' : `${unanswered} requests are`;
  throw new RunError(`${requests} not answered; keep stdin open until the answers have come`);
}

/** A client behind ssh that is gone looks the same, and its session must be free for the next connection. */
const ANSWER_TIMEOUT_MS = 10_000;
