import { StartError } from '../../listener/start-error.ts';
import type { HostPolicy } from '../../network/http/host-policy.ts';
import type { ExecServerConfig } from '../config/config.ts';

/** Rejects with StartError, which names the option, when a list of hosts cannot be read. */
export async function refuseBadHosts(config: ExecServerConfig): Promise<void> {
  if (config.httpAllowedHosts !== '' || config.httpDeniedHosts !== '') await hostPolicyOf(config);
}

/** Where requests to web servers may go, as the configuration wants it. Rejects with StartError when it cannot be read. */
export async function hostPolicyOf(config: ExecServerConfig): Promise<HostPolicy> {
  const { hostPatterns } = await import('../../network/http/host-policy.ts');
  const read = (list: string, option: string) => {
    let patterns: HostPolicy['allowed'];
    try {
      patterns = hostPatterns(list);
    } catch (error) {
      throw new StartError(`${option}: ${(error as Error).message}`);
    }
    // Whoever gives a list means to keep something out; one that is empty by mistake must not let everything through.
    if (patterns === null && list !== '') throw new StartError(`${option}: there is no host in the list`);
    return patterns;
  };
  return {
    allowed: read(config.httpAllowedHosts, '--http-allowed-hosts'),
    denied: read(config.httpDeniedHosts, '--http-denied-hosts'),
    privateAddresses: config.httpPrivateAddresses,
  };
}
