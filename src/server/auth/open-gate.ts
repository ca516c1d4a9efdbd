import type { MetricsToken } from '../../listener/metrics-token.ts';
import type { Revocations } from '../../listener/revocations.ts';
import type { ExecServerConfig } from '../config/config.ts';
import type { Gate } from './gate.ts';
import { anonymousPrincipal } from './principal.ts';

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

/** Reads the token of scrapers; null when they have none of their own. Throws StartError when it cannot be read. */
export async function openMetricsToken({
  metricsTokenFile,
}: Pick<ExecServerConfig, 'metricsTokenFile'>): Promise<MetricsToken | null> {
  if (metricsTokenFile === '') return null;
  const [{ MetricsToken }, { readSecretFile }] = await Promise.all([
    import('../../listener/metrics-token.ts'),
    import('./secret-file.ts'),
  ]);
  return new MetricsToken(readSecretFile(metricsTokenFile, 'token of /metrics'));
}

/** Creates the gate of `/metrics` on the listener of clients; null when scrapers have no token of their own. */
export async function openMetricsGate(config: ExecServerConfig): Promise<Gate | null> {
  const token = await openMetricsToken(config);
  if (token === null) return null;
  return async (authorization, address) =>
    token.check(authorization, address) ?? { principal: anonymousPrincipal(address) };
}
