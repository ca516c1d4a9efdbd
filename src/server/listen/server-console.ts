import { fail } from '../../console/answers.ts';
import { Console } from '../../console/console.ts';
import { packagePageFolder } from '../../console/page-files.ts';
import { consoleOrigin, signInUrl } from '../../console/paths.ts';
import { textOfNativePath } from '../../files/native-path.ts';
import { refusalDelay } from '../../listener/refusal-delay.ts';
import type { Logger } from '../../observability/log.ts';
import { VERSION } from '../../observability/version.ts';
import type { Transport } from '../../transport/transport.ts';
import { readOnlyAccess } from '../auth/access.ts';
import type { Gate } from '../auth/gate.ts';
import { anonymousPrincipal, type Principal } from '../auth/principal.ts';
import type { ExecServerConfig } from '../config/config.ts';
import type { ServerState } from '../records/server-metrics.ts';

/** What the console uses of its server. */
interface ServerConsoleOptions {
  readonly config: ExecServerConfig;
  readonly tls: boolean;
  readonly log: Logger;
  /** Null when clients need no token. */
  readonly gate: Gate | null;
  /** Whether the token of the principal was revoked. */
  isRevoked(principal: Principal): boolean;
  state(): Omit<ServerState, 'audit'>;
  accept(transport: Transport, principal: Principal): Promise<unknown>;
  rejected(status: number, reason: string, address: string | null, tokenId: string | null): void;
}

/** The name of the only environment of a server's own console. */
const ENVIRONMENT = 'server';

/** The console of a server, and the links to it. */
export type ServerConsole = Console<Principal> & {
  /**
   * Creates a link with all rights, for a server with this URL whose clients need no token. Null where they do: a link has the rights of
   * the token with which it was asked for.
   */
  link(url: string): string | null;
};

/**
 * The console of a server. A browser gets the rights of the token with which its link was created, or fewer, and never more than any
 * client of this server.
 */
export function createServerConsole(options: ServerConsoleOptions): ServerConsole {
  const { config, tls, log, gate, isRevoked, state, accept } = options;
  const console = new Console<Principal>({
    version: VERSION,
    tls,
    log,
    pageFolder: packagePageFolder(),
    environments: [
      {
        name: ENVIRONMENT,
        label: config.environmentId || 'this server',
        address: 'this server',
        directory: null,
        default: true,
      },
    ],
    scopesOf: ({ access: { exec, observe, viewOwn = false, files, net, metrics, below } }) => ({
      exec,
      observe,
      processes: exec || observe || viewOwn,
      files,
      net,
      metrics,
      below: below && textOfNativePath(below),
    }),
    isReadOnly: ({ access }) => !access.exec && access.files !== 'write',
    ownerOf: ({ owner }) => owner,
    expiryOf: ({ expiresAtMs }) => expiresAtMs,
    isGranted: (principal) => !isRevoked(principal),
    connect: async (principal) => ({
      serve: (transport, address) => accept(transport, { ...principal, address }),
      close: () => {},
    }),
    machine: async ({ access }) => {
      const { machineFacts } = await import('../machine/machine-facts.ts');
      return machineFacts(config, access, state(), process.env);
    },
    authorize: async ({ headers, socket }, readOnly) => {
      const address = socket.remoteAddress ?? null;
      const admission =
        gate === null
          ? { principal: anonymousPrincipal(address) }
          : await gate(headers.authorization, address);
      if (!('refusal' in admission)) return readOnly ? restricted(admission.principal) : admission.principal;
      const { refusal, delayMs, tokenId = null } = admission;
      options.rejected(401, refusal, address, tokenId);
      await refusalDelay(socket, delayMs);
      return fail(401, 'signedOut', refusal, { 'www-authenticate': 'Bearer' });
    },
    rejected: (status, reason, address) => options.rejected(status, reason, address, null),
  });
  return Object.assign(console, {
    link: (url: string) =>
      gate === null ? signInUrl(consoleOrigin(url), console.issueCode(anonymousPrincipal(null))) : null,
  });
}

/** A principal without the rights to change anything. */
function restricted(principal: Principal): Principal {
  return { ...principal, access: readOnlyAccess(principal.access) };
}
