/** Encodes the few DER types (X.690) that certificates need. */

export function sequence(...parts: readonly Uint8Array[]): Buffer {
  return tagged(0x30, ...parts);
}

export function set(...parts: readonly Uint8Array[]): Buffer {
  return tagged(0x31, ...parts);
}

/** A non-negative number, given by its bytes. */
export function integer(bytes: Uint8Array): Buffer {
  const start = bytes.findIndex((byte) => byte !== 0);
  const digits = start === -1 ? Buffer.alloc(1) : bytes.subarray(start);
  return tagged(0x02, ...((digits[0] ?? 0) > 127 ? [Buffer.alloc(1)] : []), digits);
}

export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

export function boolean(value: boolean): Buffer {
  return tagged(0x01, Buffer.from([value ? 0xff : 0]));
}

export function text(value: string): Buffer {
  return tagged(0x0c, Buffer.from(value));
}

export function octets(bytes: Uint8Array): Buffer {
  return tagged(0x04, bytes);
}

/** All bits except the last `unused` ones. */
export function bits(bytes: Uint8Array, unused = 0): Buffer {
  return tagged(0x03, Buffer.from([unused]), bytes);
}

/** Certificates encode years before 2050 with two digits. */
export function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/\.\d+Z$|[-:T]/g, '');
  const short = date.getUTCFullYear() < 2050;
  return tagged(short ? 0x17 : 0x18, Buffer.from(`${short ? digits.slice(2) : digits}Z`));
}

/** `[number]`, constructed. */
export function context(number: number, ...parts: readonly Uint8Array[]): Buffer {
  return tagged(0xa0 + number, ...parts);
}

/** `[number]`, implicitly tagged bytes. */
export function contextBytes(number: number, bytes: Uint8Array): Buffer {
  return tagged(0x80 + number, bytes);
}

function tagged(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content.length)]), content]);
}

function lengthOf(length: number): number[] {
  if (length < 128) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return [0x80 + bytes.length, ...bytes];
}

function base128(value: number): number[] {
  const bytes = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.unshift(128 + (rest % 128));
  }
  return bytes;
}
