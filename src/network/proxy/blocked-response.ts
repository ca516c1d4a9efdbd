import type { AccessRequest, Block } from './admission.ts';

/** The response to a blocked request: the class of the reason, which programs look for, and a sentence. */
interface BlockedText {
  readonly proxyError: string;
  readonly message: string;
}

export function blockedText({ reason }: Block): BlockedText {
  return TEXTS.get(reason) ?? OTHER;
}

/** The body of the response to a blocked HTTP request. */
export function blockedBody({ host, protocol, port }: AccessRequest, block: Block): string {
  const { reason, decision, source } = block;
  const { message } = blockedText(block);
  return JSON.stringify({
    status: 'blocked',
    host: host.name,
    reason,
    decision,
    source,
    protocol,
    port,
    message,
  });
}

const TEXTS: ReadonlyMap<string, BlockedText> = new Map([
  ['not_allowed', { proxyError: 'blocked-by-allowlist', message: 'Domain not in allowlist.' }],
  [
    'not_allowed_local',
    { proxyError: 'blocked-by-allowlist', message: 'Sandbox policy blocks local/private network addresses.' },
  ],
  ['denied', { proxyError: 'blocked-by-denylist', message: 'Domain denied by the sandbox policy.' }],
  [
    'method_not_allowed',
    { proxyError: 'blocked-by-method-policy', message: 'Method not allowed in limited mode.' },
  ],
  ['mitm_required', { proxyError: 'blocked-by-mitm-required', message: 'MITM required for limited HTTPS.' }],
]);

const OTHER: BlockedText = { proxyError: 'blocked-by-policy', message: 'Request blocked by network policy.' };
