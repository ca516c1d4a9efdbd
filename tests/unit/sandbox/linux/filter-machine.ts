/** A system call as the kernel passes it to a filter. */
export interface Call {
  readonly arch: number;
  readonly nr: number;
  readonly args?: readonly bigint[];
}

export const ALLOW = 0x7fff0000;
export const DENY_EPERM = 0x00050001;
export const KILL_PROCESS = 0x80000000;

/** Evaluates a seccomp filter for one call. Throws for a filter that the kernel would reject: unknown operations and jumps out of it. */
export function runFilter(filter: Buffer, { arch, nr, args = [] }: Call): number {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(nr >>> 0, 0);
  data.writeUInt32LE(arch >>> 0, 4);
  for (const [index, value] of args.entries())
    data.writeBigUInt64LE(BigInt.asUintN(64, value), 16 + 8 * index);
  let accumulator = 0;
  for (let at = 0; at * 8 < filter.length; ) {
    const operation = filter.readUInt16LE(at * 8);
    const [ifTrue, ifFalse] = [filter.readUInt8(at * 8 + 2), filter.readUInt8(at * 8 + 3)];
    const operand = filter.readUInt32LE(at * 8 + 4);
    at++;
    if (operation === 0x20) accumulator = data.readUInt32LE(operand);
    else if (operation === 0x54) accumulator = (accumulator & operand) >>> 0;
    else if (operation === 0x05) at += operand;
    else if (operation === 0x15) at += accumulator === operand ? ifTrue : ifFalse;
    else if (operation === 0x35) at += accumulator >= operand ? ifTrue : ifFalse;
    else if (operation === 0x06) return operand;
    else throw new Error(`unknown operation 0x${operation.toString(16)}`);
  }
  throw new Error('the filter ends without a verdict');
}
