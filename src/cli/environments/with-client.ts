import { channel } from 'node:diagnostics_channel';
import type { ExecServerClient } from '../../client/client.ts';
import type { Host } from '../commands.ts';
import { RunError } from '../failures.ts';
import { currentDirectory } from './current-directory.ts';
import { type ClientOptions, DRAINING, findTarget, LOCAL, type Target } from './target.ts';

/** The flags of {@link TARGET_FLAGS} that were given. */
export interface GivenTarget {
  readonly environment?: string;
  readonly 'token-file'?: string;
  /** What names the environment, for errors, if it is not -E. */
  readonly source?: string;
}

/** What a command has while it is connected. */
export interface Connected {
  readonly client: ExecServerClient;
  readonly target: Target;
}

/** Options of the client, which may depend on the environment. */
type OptionsFor = ClientOptions | ((target: Target) => ClientOptions);

/** Finds the environment of a command, connects, and closes the connection when `use` has ended. */
export async function withClient<Result>(
  { environment, 'token-file': tokenFile, source }: GivenTarget,
  host: Pick<Host, 'env'>,
  options: OptionsFor,
  use: (connected: Connected) => Promise<Result>,
): Promise<Result> {
  const sources = { env: host.env, directory: currentDirectory() };
  const target = await findTarget(
    {
      environment: environment ?? null,
      tokenFile: tokenFile ?? null,
      ...(source !== undefined && { source }),
    },
    sources,
  );
  const client = await target.connect(typeof options === 'function' ? options(target) : options);
  FIRST_SESSION.publish({});
  try {
    return await use({ client, target });
  } finally {
    await client.close();
  }
}

/**
 * Like {@link withClient}, for a command that starts a program. `use` is called again with the next private server when the first one
 * begins to drain before the program has started.
 */
export async function withStarter<Result>(
  given: GivenTarget,
  host: Pick<Host, 'env'>,
  options: OptionsFor,
  use: (connected: Connected) => Promise<Result>,
): Promise<Result> {
  for (;;) {
    let isPrivate = false;
    try {
      return await withClient(given, host, options, (connected) => {
        isPrivate = connected.target.name === LOCAL;
        return use(connected);
      });
    } catch (error) {
      if (!isPrivate || !(error instanceof RunError) || error.kind !== DRAINING) throw error;
    }
  }
}

/** The bin records its code cache after the first session (scripts/bin-loader.cjs). */
const FIRST_SESSION = channel('exec-server:first-session');
