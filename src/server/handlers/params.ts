import { resolve } from 'node:path/posix';
import { asBuffer } from '../../base/as-buffer.ts';
import type { NewAttributes } from '../../files/file-system.ts';
import { type NativePath, nativePathOfText } from '../../files/native-path.ts';
import { PathUriError, pathFromUri, uriFromPath } from '../../files/path-uri.ts';
import type { BulkBytes } from '../../protocol/envelope.ts';
import { invalidParams, invalidRequest, printable } from '../../protocol/errors.ts';
import { type Decoded, decodeStrictBase64 } from '../../rpc/strict-base64.ts';
import type { ExecServerConfig } from '../config/config.ts';

type PathSettings = Pick<ExecServerConfig, 'acceptNativePaths'>;

/** The URI for a path of a request. With `acceptNativePaths` the request may contain an absolute native path instead of a URI. */
export function uriOfPath(text: string, { acceptNativePaths }: PathSettings): string {
  // Dots are resolved by name, as in a URI.
  return acceptNativePaths && text.startsWith('/') ? uriFromPath(nativePathOfText(resolve(text))) : text;
}

/** The native path of a path parameter. Throws RpcError, which names the parameter. */
export function pathParam<Name extends string>(
  params: Readonly<Record<Name, string>>,
  name: Name,
  settings: PathSettings,
): NativePath {
  try {
    return pathFromUri(uriOfPath(params[name], settings));
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    const message = `params.${name}: ${printable(error.message)}`;
    throw error.kind === 'syntax' ? invalidParams(message) : invalidRequest(message);
  }
}

/** The native paths of a list of paths. */
export function pathsParam(
  { paths }: { readonly paths: readonly string[] },
  settings: PathSettings,
): NativePath[] {
  return paths.map((path, index) => {
    const name = `paths[${index}]`;
    return pathParam({ [name]: path }, name, settings);
  });
}

/** The attributes to set. Absent ones are left out. */
export function attributesParam(params: {
  readonly mode?: number | null | undefined;
  readonly modifiedAtMs?: number | null | undefined;
}): NewAttributes {
  return { mode: params.mode ?? undefined, modifiedAtMs: params.modifiedAtMs ?? undefined };
}

/** The bytes of a base64 parameter, which may be decoded already. Throws RpcError, which names the parameter. */
export function bytesParam<Name extends string>(
  params: Readonly<Record<Name, string>>,
  name: Name,
  bulk: BulkBytes | null,
): Buffer {
  const bytes = decodeParam(params[name], bulk);
  if ('problem' in bytes) {
    throw invalidParams(`params.${name}: expected standard base64 with padding: ${bytes.problem}`);
  }
  return bytes;
}

/** Decodes a base64 parameter unless that is done already. Returns the bytes, or what is wrong with the text. */
export function decodeParam(param: string, bulk: BulkBytes | null): Decoded {
  if (bulk === null) return decodeStrictBase64(param);
  return bulk.problem === null ? asBuffer(bulk.bytes) : { problem: bulk.problem };
}
