import { hostInUrl, type SocketAddress } from '../../listener/listen-url.ts';

/** The configured address and URLs of a node. */
interface NodeUrlSettings {
  readonly address: SocketAddress;
  readonly publicUrl: string | null;
  readonly nodeUrl: string | null;
}

/** The URLs of a node. URLs that are not configured are derived from the address after it listens. */
export class NodeUrls {
  readonly #settings: NodeUrlSettings;
  #own = '';

  constructor(settings: NodeUrlSettings) {
    this.#settings = settings;
  }

  /** HTTP URL of any node. */
  get http(): string {
    return this.#settings.publicUrl ?? this.#own;
  }

  /** Websocket URL of any node. */
  get public(): string {
    return toWebSocket(this.http);
  }

  /** Websocket URL of this node. */
  get node(): string {
    return toWebSocket(this.#settings.nodeUrl ?? this.http);
  }

  /** Path prefixes of the configured URLs, longest first. */
  get basePaths(): readonly string[] {
    const urls = [this.#settings.publicUrl, this.#settings.nodeUrl].filter((url) => url !== null);
    const paths = urls.map((url) => new URL(url).pathname.replace(/\/+$/, ''));
    return [...new Set(paths)].sort((left, right) => right.length - left.length);
  }

  listensOn(port: number): void {
    const { host, secure } = this.#settings.address;
    this.#own = `${secure ? 'https' : 'http'}://${hostInUrl(host)}:${port}`;
  }
}

function toWebSocket(url: string): string {
  return url.replace(/^https?/i, (scheme) => (scheme.length > 4 ? 'wss' : 'ws')).replace(/\/+$/, '');
}
