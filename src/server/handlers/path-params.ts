import type { NativePath } from '../../files/native-path.ts';
import { PathUriError, pathFromUri } from '../../files/path-uri.ts';
import { invalidParams, invalidRequest, printable } from '../../protocol/errors.ts';

/** The native path that a parameter names; a refusal names the parameter. */
export function pathParam<Name extends string>(
  params: Readonly<Record<Name, string>>,
  name: Name,
): NativePath {
  try {
    return pathFromUri(params[name]);
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    const message = `params.${name}: ${printable(error.message)}`;
    throw error.kind === 'syntax' ? invalidParams(message) : invalidRequest(message);
  }
}

/** A confinement that cannot be enforced must not be dropped silently; one that says it is switched off may be. */
export function refuseFileSandbox({ sandbox }: { readonly sandbox?: unknown }): void {
  const { permissions } = (sandbox ?? {}) as { permissions?: { type?: unknown } | null };
  if (permissions?.type !== 'disabled') refuseSandbox({ sandbox });
}

/** A confinement that cannot be enforced must not be dropped silently. */
export function refuseSandbox({ sandbox }: { readonly sandbox?: unknown }): void {
  if (sandbox == null) return;
  throw invalidParams('params.sandbox: this server cannot enforce a sandbox; send null to do without one');
}
