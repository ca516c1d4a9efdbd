import { basename, join } from 'node:path';
import { stdioCommand } from '../../client/stdio.ts';
import { parseEnvironments } from '../../environment/config/environments-toml.ts';
import { readTomlFile } from '../../environment/config/toml-file.ts';
import type { EnvironmentTransport } from '../../environment/provider.ts';
import { codexHome } from '../../relay/sign-in/codex-config.ts';
import { publicUrl } from './public-address.ts';
import type { TransportChoice } from './target.ts';

/** An environment of codex, which commands may name too. */
export interface CodexEnvironment {
  readonly id: string;
  /** Where it is, for people. */
  readonly address: string;
  /** The same for other people. */
  readonly publicAddress: string;
  readonly file: string;
  readonly transport: TransportChoice;
}

/**
 * Reads environments.toml of codex. This program never writes it: codex refuses a file with URLs or keys that it does not know. Throws
 * ClientError of kind `config` for a file that is wrong.
 */
export async function codexEnvironments(env: NodeJS.ProcessEnv): Promise<readonly CodexEnvironment[]> {
  const home = codexHome(env);
  const file = join(home, 'environments.toml');
  const root = await readTomlFile(file);
  if (root === null) return [];
  return parseEnvironments(root, home).environments.map(({ id, transport }) => ({
    id,
    ...addressesOf(transport),
    file,
    transport: choiceOf(transport),
  }));
}

function choiceOf(transport: EnvironmentTransport): TransportChoice {
  switch (transport.type) {
    case 'websocket': {
      const { url, authToken } = transport;
      return { url, ...(authToken != null && { authToken }) };
    }
    case 'stdio': {
      const { program, args = [], env = {}, cwd = null } = transport;
      return stdioCommand({ program, args, env, ...(cwd !== null && { cwd }) });
    }
    case 'opener':
      return { open: (signal) => transport.open(signal), resumable: transport.resumable };
  }
}

function addressesOf(transport: EnvironmentTransport): Pick<CodexEnvironment, 'address' | 'publicAddress'> {
  switch (transport.type) {
    case 'websocket':
      return { address: transport.url, publicAddress: publicUrl(transport.url) };
    case 'stdio': {
      const { program, args = [] } = transport;
      return { address: [program, ...args].join(' '), publicAddress: basename(program) };
    }
    case 'opener':
      return { address: 'behind a relay', publicAddress: 'behind a relay' };
  }
}
