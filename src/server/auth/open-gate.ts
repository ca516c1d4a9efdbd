import type { Revocations } from '../../listener/revocations.ts';
import type { ExecServerConfig } from '../config/config.ts';
import type { Gate } from './gate.ts';

/** Null when clients need no token; the code for tokens is not loaded then. */
export async function openGate(config: ExecServerConfig, revoked: Revocations | null): Promise<Gate | null> {
  if (config.wsAuth === 'none') return null;
  const { createGate } = await import('./gate.ts');
  return createGate(config, revoked);
}

/** Reads the revoked tokens; null when no list is configured. Throws StartError. */
export async function openRevocations({ revokedTokens }: ExecServerConfig): Promise<Revocations | null> {
  if (revokedTokens === '') return null;
  const { Revocations } = await import('../../listener/revocations.ts');
  return Revocations.open(revokedTokens, '--revoked-tokens');
}
