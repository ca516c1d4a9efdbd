import { isIPv4 } from 'node:net';

/** Address types of SOCKS5: four bytes, a name with its length, sixteen bytes. */
export const ADDRESS_V4 = 1;
export const ADDRESS_NAME = 3;
export const ADDRESS_V6 = 4;

/** Encodes an address and a port for SOCKS5. */
export function encodeAddress(address: string, port: number): Buffer {
  const bytes = isIPv4(address) ? address.split('.').map(Number) : ipv6Bytes(address);
  return Buffer.from([isIPv4(address) ? ADDRESS_V4 : ADDRESS_V6, ...bytes, port >> 8, port & 255]);
}

/** Decodes a host and a port at `start`; null when they are incomplete. */
export function decodeAddress(
  bytes: Buffer,
  start: number,
): { readonly host: string; readonly port: number; readonly end: number } | null {
  const type = bytes[start];
  const from = start + (type === ADDRESS_NAME ? 2 : 1);
  const length =
    type === ADDRESS_V4 ? 4 : type === ADDRESS_V6 ? 16 : type === ADDRESS_NAME ? bytes[start + 1] : undefined;
  if (length === undefined || from + length + 2 > bytes.length) return null;
  const part = bytes.subarray(from, from + length);
  const host =
    type === ADDRESS_NAME ? part.toString('latin1') : type === ADDRESS_V4 ? part.join('.') : ipv6Text(part);
  return { host, port: bytes.readUInt16BE(from + length), end: from + length + 2 };
}

/** The text of a 16-byte address. */
export function ipv6Text(bytes: Buffer): string {
  return (bytes.toString('hex').match(/.{4}/g) ?? []).join(':');
}

/** The URL standard writes an IPv6 address without dots; this expands `::`. */
function ipv6Bytes(address: string): Buffer {
  const plain = new URL(`http://[${address.replace(/%.*/, '')}]/`).hostname.slice(1, -1);
  const [front = [], back = []] = plain
    .split('::')
    .map((half) => half.split(':').filter((group) => group !== ''));
  const missing = 8 - front.length - back.length;
  const groups = [...front, ...Array<string>(missing).fill('0'), ...back];
  return Buffer.from(groups.map((group) => group.padStart(4, '0')).join(''), 'hex');
}
