import { rootCertificates } from 'node:tls';
import type { AuthorityFiles } from '../../http/trusted-authorities.ts';

/** The certificates that programs of this machine trust anyway, and those that the server was told to trust, in PEM. */
export function programTrust({ system, added }: AuthorityFiles): readonly string[] {
  // Node's own where the system keeps none.
  return [
    ...(system === null ? rootCertificates : certificatesIn(system)),
    ...certificatesIn(added?.text ?? ''),
  ];
}

/** Nothing else of a file: there may be keys in it. */
function certificatesIn(pem: string): readonly string[] {
  return pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
}
