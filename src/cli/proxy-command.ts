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
  const isBelowSsh = Boolean(host.env.SSH_CONNECTION);
  const answerTimeoutMs = isBelowSsh ? SSH_ANSWER_TIMEOUT_MS : ANSWER_TIMEOUT_MS;
  const unanswered = await joinTransports(client, server, { answerTimeoutMs });
  if (unanswered === 0) return { text: '', exitCode: 0 };
  const requests = unanswered === 1 ? 'one request is' : `${unanswered} requests are`;
  throw new RunError(`${requests} not answered; keep stdin open until the answers have come`);
}

const ANSWER_TIMEOUT_MS = 10_000;
/** A lost ssh connection looks the same, and its client tries to come back to the session, which must be free for it. */
const SSH_ANSWER_TIMEOUT_MS = 1_000;
