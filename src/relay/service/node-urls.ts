import type { SocketAddress } from '../../listener/listen-url.ts';

/** What a relay is told about where it is reached. */
export interface NodeUrlSettings {
  readonly address: SocketAddress;
  readonly publicUrl: string | null;
  readonly nodeUrl: string | null;
}

/** The URLs of a node. Those that are not configured are known once it listens. */
export class NodeUrls {
  readonly #settings: NodeUrlSettings;
  #own = '';

  constructor(settings: NodeUrlSettings) {
    this.#settings = settings;
  }

  /** The HTTP URL that leads to any node. */
  get http(): string {
    return this.#settings.publicUrl ?? this.#own;
  }

  /** The websocket URL that leads to any node. */
  get public(): string {
    return toWebSocket(this.http);
  }

  /** The websocket URL that leads to this node. */
  get node(): string {
    return toWebSocket(this.#settings.nodeUrl ?? this.http);
  }

  /** What stands in front of the relay's own paths, the longest first. */
  get basePaths(): readonly string[] {
    const urls = [this.#settings.publicUrl, this.#settings.nodeUrl].filter((url) => url !== null);
    const paths = urls.map((url) => new URL(url).pathname.replace(/\/+$/, ''));
    return [...new Set(paths)].sort((left, right) => right.length - left.length);
  }

  listensOn(port: number): void {
    const { host, secure } = this.#settings.address;
    this.#own = `${secure ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
  }
}

function toWebSocket(url: string): string {
  return url.replace(/^https?/i, (scheme) => (scheme.length > 4 ? 'wss' : 'ws')).replace(/\/+$/, '');
}
