import { isOwnAddress } from './addresses.ts';

/**
 * Ports on this machine that belong to the server: its listeners and its proxies. No proxy connects to them, whatever its patterns
 * allow: a request would run in circles, or a program would use another one's permissions or give orders to the server.
 */
export class OwnPorts {
  readonly #ports = new Map<number, number>();

  /** Adds a port; the returned function removes it. */
  add(port: number): () => void {
    this.#ports.set(port, (this.#ports.get(port) ?? 0) + 1);
    let added = true;
    return () => {
      const count = (this.#ports.get(port) ?? 0) - (added ? 1 : 0);
      added = false;
      if (count > 0) this.#ports.set(port, count);
      else this.#ports.delete(port);
    };
  }

  includes(address: string, port: number): boolean {
    return this.#ports.has(port) && isOwnAddress(address);
  }
}
