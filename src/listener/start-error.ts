/** The service cannot start with this configuration. The message says what to change. */
export class StartError extends Error {
  override readonly name = 'StartError';
}
