import type { Revocations } from '../../listener/revocations.ts';
import type { ExecServerConfig } from '../config/config.ts';
import type { Gate } from './gate.ts';

/** Creates the gate of a listener; null when clients need no token. Throws StartError when the token or secret cannot be read. */
export async function openGate(
  config: ExecServerConfig,
  revoked: Pick<Revocations, 'has'> | null,
): Promise<Gate | null> {
  if (config.wsAuth === 'none') return null;
  const { createGate } = await import('./gate.ts');
  return createGate(config, revoked);
}

/** Reads the list of revoked tokens; null when none is configured. Throws StartError for a list that cannot be read. */
export async function openRevocations({ revokedTokens }: ExecServerConfig): Promise<Revocations | null> {
  if (revokedTokens === '') return null;
  const { Revocations } = await import('../../listener/revocations.ts');
  return Revocations.open(revokedTokens, '--revoked-tokens');
}
