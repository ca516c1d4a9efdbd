import { asBuffer } from '../../base/as-buffer.ts';
import type { NativePath } from '../../files/native-path.ts';
import { PathUriError, pathFromUri } from '../../files/path-uri.ts';
import type { BulkBytes } from '../../protocol/envelope.ts';
import { invalidParams, invalidRequest, printable } from '../../protocol/errors.ts';
import { type Decoded, decodeStrictBase64 } from '../../rpc/strict-base64.ts';

/** The native path of a URI parameter. Throws RpcError, which names the parameter. */
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
