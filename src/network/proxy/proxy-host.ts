import { randomBytes } from 'node:crypto';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { InterceptionHost } from './interception/interception-host.ts';
import { ownedFolderName } from './interception/owned-folders.ts';
import { type Resolve, systemLookup } from './name-lookup.ts';
import { OwnPorts } from './own-ports.ts';

/** The variables of the server. */
export type ServerVariables = Readonly<Record<string, string | undefined>>;

/** What all proxies of a server share. */
export class ProxyHost {
  readonly ownPorts = new OwnPorts();
  readonly resolve: Resolve;
  readonly env: ServerVariables;
  /** How this server names itself in `Via`: its own requests are known by it when they come back. */
  readonly via = `exec-server-${randomBytes(8).toString('hex')}`;
  /** Set with the first program whose connections are looked into. */
  interception: InterceptionHost | null = null;
  #bundlePath: string | null = null;

  constructor(resolve: Resolve = systemLookup(), env: ServerVariables = process.env) {
    this.resolve = resolve;
    this.env = env;
  }

  /**
   * Where programs find whom to trust while their connections are looked into. It is in the configuration folder, which sandboxes
   * protect where it has its usual name.
   */
  get bundlePath(): string {
    const home = this.env.CODEX_HOME || join(this.env.HOME || homedir(), '.codex');
    this.#bundlePath ??= join(home, 'proxy', ownedFolderName(), 'ca-bundle.pem');
    return this.#bundlePath;
  }
}
