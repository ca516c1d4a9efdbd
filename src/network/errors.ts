/** What kind of failure it is: a request that makes no sense, one that is not allowed, one that failed, one too many. */
export type NetworkErrorKind = 'invalid' | 'refused' | 'failed' | 'limit';

/** Something on the network could not be done. The message is for the client: it holds no query, user name or password of a URL. */
export class NetworkError extends Error {
  override readonly name = 'NetworkError';
  readonly kind: NetworkErrorKind;

  constructor(kind: NetworkErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
