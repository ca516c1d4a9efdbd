/** A system call that a program made: its number and the first registers. */
export interface MadeCall {
  readonly nr: number;
  readonly args: readonly number[];
}

/** The memory below the stack pointer, where calls write their results. */
export interface StackMemory {
  readonly bytes: Buffer;
  /** The address of the first byte. */
  readonly start: number;
}

const STACK_POINTER = 31;
const STACK_END = 0x7fff0000;
const STACK_BYTES = 4096;

/**
 * Interprets an arm64 executable whose segment is loaded at `base`, until `answer` returns null. Supports only the instructions of a
 * launcher and throws for all others.
 */
export function runArm64(
  image: Buffer,
  base: number,
  answer: (call: MadeCall, stack: StackMemory) => number | null,
): void {
  const registers = new Array<number>(32).fill(0);
  registers[STACK_POINTER] = STACK_END;
  const stack: StackMemory = { bytes: Buffer.alloc(STACK_BYTES), start: STACK_END - STACK_BYTES };
  const memory = (address: number) =>
    address >= stack.start ? stack.bytes.subarray(address - stack.start) : image.subarray(address - base);
  let equal = false;
  let pc = image.readUInt32LE(24) - base;
  for (let steps = 0; steps < 10_000; steps++) {
    const word = image.readUInt32LE(pc);
    const rd = word & 31;
    const rn = (word >>> 5) & 31;
    const imm16 = (word >>> 5) & 0xffff;
    const imm12 = (word >>> 10) & 0xfff;
    const imm19 = ((word >>> 5) << 13) >> 13;
    let next = pc + 4;
    if ((word & 0xffe00000) >>> 0 === 0x52800000) registers[rd] = imm16;
    else if ((word & 0xffe00000) >>> 0 === 0x72a00000)
      registers[rd] = ((registers[rd]! & 0xffff) | (imm16 << 16)) >>> 0;
    else if (word === 0xd4000001) {
      const result = answer({ nr: registers[8]!, args: registers.slice(0, 6) }, stack);
      if (result === null) return;
      registers[0] = result >>> 0;
    } else if ((word & 0xff000000) >>> 0 === 0x34000000) {
      if (registers[rd] === 0) next = pc + imm19 * 4;
    } else if ((word & 0xffe0ffe0) >>> 0 === 0x4b0003e0)
      registers[rd] = -registers[(word >>> 16) & 31]! >>> 0;
    else if ((word & 0xffc00000) >>> 0 === 0xb9400000)
      registers[rd] = memory(registers[rn]! + imm12 * 4).readUInt32LE();
    else if ((word & 0xffc00000) >>> 0 === 0xf9400000) {
      registers[rd] = Number(memory(registers[rn]! + imm12 * 8).readBigUInt64LE());
    } else if ((word & 0xffe0fc1f) >>> 0 === 0x6b00001f)
      equal = registers[rn] === registers[(word >>> 16) & 31];
    else if ((word & 0xffe0fc1f) >>> 0 === 0xeb00001f)
      equal = registers[rn] === registers[(word >>> 16) & 31];
    else if ((word & 0xff00001f) >>> 0 === 0x54000000) {
      if (equal) next = pc + imm19 * 4;
    } else if ((word & 0xff00001f) >>> 0 === 0x54000001) {
      if (!equal) next = pc + imm19 * 4;
    } else if ((word & 0xff000000) >>> 0 === 0xb4000000) {
      if (registers[rd] === 0) next = pc + imm19 * 4;
    } else if ((word & 0xff000000) >>> 0 === 0x35000000) {
      if (registers[rd] !== 0) next = pc + imm19 * 4;
    } else if ((word & 0xff000000) >>> 0 === 0x37000000) {
      const imm14 = ((word >>> 5) << 18) >> 18;
      if ((registers[rd]! >>> ((word >>> 19) & 31)) & 1) next = pc + imm14 * 4;
    } else if ((word & 0xffe0fc00) >>> 0 === 0x0a200000)
      registers[rd] = (registers[rn]! & ~registers[(word >>> 16) & 31]!) >>> 0;
    else if ((word & 0xffc00000) >>> 0 === 0xd1000000) registers[rd] = registers[rn]! - imm12;
    else if ((word & 0xffc00000) >>> 0 === 0x91000000) registers[rd] = registers[rn]! + imm12;
    else if ((word & 0xfc000000) >>> 0 === 0x14000000) next = pc + ((word << 6) >> 6) * 4;
    else throw new Error(`unknown instruction 0x${word.toString(16)} at ${pc}`);
    pc = next;
  }
  throw new Error('the program does not end');
}
