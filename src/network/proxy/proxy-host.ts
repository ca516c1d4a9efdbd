import { randomBytes } from 'node:crypto';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { InterceptionHost } from './interception/interception-host.ts';
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
  /**
   * Where programs find whom to trust while their connections are looked into. It is in the configuration folder, which is protected
   * by its name: no sandbox lets a program write there.
   */
  readonly bundlePath: string;
  /** Set with the first program whose connections are looked into. */
  interception: InterceptionHost | null = null;

  constructor(resolve: Resolve = systemLookup(), env: ServerVariables = process.env) {
    this.resolve = resolve;
    this.env = env;
    const home = env.CODEX_HOME || join(env.HOME || homedir(), '.codex');
    this.bundlePath = join(home, 'proxy', `exec-server-${randomBytes(8).toString('hex')}`, 'ca-bundle.pem');
  }
}
