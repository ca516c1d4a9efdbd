/** What is configured cannot be served; the message says what would cure it. */
export class StartError extends Error {
  override readonly name = 'StartError';
}
