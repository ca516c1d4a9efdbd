/** A request is refused: the status and the error object that its client gets. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly status: number;
  readonly code: string;
  /** Of the token that was not good enough, for the record; null where there is none of this relay. */
  readonly tokenId: string | null;

  constructor(status: number, code: string, message: string, tokenId: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.tokenId = tokenId;
  }
}
