import { config } from 'zod/v4';

/**
 * Keeps zod from compiling schemas. It must be called before the SDK is loaded: the SDK has hundreds of schemas, and a client uses most
 * of them once or never, so that compiling would double the time until the first answer.
 */
export function leaveSchemasUncompiled(): void {
  config({ jitless: true });
}
