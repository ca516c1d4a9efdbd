import { asBuffer } from '../../base/as-buffer.ts';
import type { BulkBytes } from '../../protocol/envelope.ts';
import { invalidParams } from '../../protocol/errors.ts';
import { type Decoded, decodeStrictBase64 } from '../../rpc/strict-base64.ts';

/** The bytes of a parameter in base64, which may have been decoded already; a refusal names it. */
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

/** The bytes of a parameter in base64, which may have been decoded already, or what is wrong with it. */
export function decodeParam(param: string, bulk: BulkBytes | null): Decoded {
  if (bulk === null) return decodeStrictBase64(param);
  return bulk.problem === null ? asBuffer(bulk.bytes) : { problem: bulk.problem };
}
