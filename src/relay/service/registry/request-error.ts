/** Refuses a request with a status and an error object. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly status: number;
  readonly code: string;
  /** Id of the insufficient token, for the audit log. Null without a token of this relay. */
  readonly tokenId: string | null;

  constructor(status: number, code: string, message: string, tokenId: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.tokenId = tokenId;
  }
}
