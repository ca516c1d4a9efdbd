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
