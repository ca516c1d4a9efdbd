import { randomBytes } from 'node:crypto';
import { type Resolve, systemLookup } from './name-lookup.ts';
import { OwnPorts } from './own-ports.ts';

/** What all proxies of a server share. */
export class ProxyHost {
  readonly ownPorts = new OwnPorts();
  readonly resolve: Resolve;
  /** How this server names itself in `Via`: its own requests are known by it when they come back. */
  readonly via = `exec-server-${randomBytes(8).toString('hex')}`;

  constructor(resolve: Resolve = systemLookup()) {
    this.resolve = resolve;
  }
}
