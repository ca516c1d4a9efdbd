/** Whether the request is invalid, is not allowed, failed, or exceeds a limit. */
export type NetworkErrorKind = 'invalid' | 'refused' | 'failed' | 'limit';

/** A network request that failed. The message is for the client and contains no query, user name or password of a URL. */
export class NetworkError extends Error {
  override readonly name = 'NetworkError';
  readonly kind: NetworkErrorKind;

  constructor(kind: NetworkErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
