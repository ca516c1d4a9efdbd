import { type Architecture, type SyscallName, syscallNumber } from './syscalls.ts';

/** Machine code of a few system calls with constant arguments. */
export interface MachineCode {
  /** Arguments are taken as unsigned 32-bit numbers. */
  call(name: SyscallName, ...args: readonly number[]): void;
  /** The same with the result of the last call as the first argument. */
  callWithResult(name: SyscallName, ...more: readonly number[]): void;
  /** Runs what `onFailure` writes when the last call has not returned zero. */
  unlessZero(onFailure: () => void): void;
  /**
   * Takes the result of the last call as a negated errno, looks it up in the table at `table`, writes the text found there to
   * descriptor 2 and ends the process with the code found there. Entries are as {@link REPORT_ENTRY_BYTES} says.
   */
  report(table: number): void;
  bytes(): Buffer;
}

/** An entry: errno (0 is any, and ends the table) and exit code in 4 bytes each, address and length of the text in 8 bytes each. */
export const REPORT_ENTRY_BYTES = 24;

export function machineCode(architecture: Architecture): MachineCode {
  return architecture === 'x64' ? new X64Code() : new Arm64Code();
}

const STDERR = 2;

class X64Code implements MachineCode {
  readonly #code: number[] = [];

  call(name: SyscallName, ...args: readonly number[]): void {
    this.#arguments(args, 0);
    this.#invoke(name);
  }

  callWithResult(name: SyscallName, ...more: readonly number[]): void {
    // mov edi, eax
    this.#code.push(0x89, 0xc7);
    this.#arguments(more, 1);
    this.#invoke(name);
  }

  unlessZero(onFailure: () => void): void {
    // test eax, eax; jz over what follows
    this.#code.push(0x85, 0xc0, 0x74, 0);
    const from = this.#code.length;
    onFailure();
    this.#code[from - 1] = this.#code.length - from;
  }

  report(table: number): void {
    // neg eax; mov ebx, table
    this.#code.push(0xf7, 0xd8, 0xbb, ...littleEndian(table));
    // next: mov ecx, [rbx]; test ecx, ecx; jz found; cmp ecx, eax; je found; add ebx, 24; jmp next
    this.#code.push(0x8b, 0x0b, 0x85, 0xc9, 0x74, 9, 0x39, 0xc1, 0x74, 5, 0x83, 0xc3, REPORT_ENTRY_BYTES);
    this.#code.push(0xeb, 0xf1);
    // found: mov rsi, [rbx+8]; mov rdx, [rbx+16]; mov edi, 2
    this.#code.push(0x48, 0x8b, 0x73, 8, 0x48, 0x8b, 0x53, 16, 0xbf, ...littleEndian(STDERR));
    this.#invoke('write');
    // mov edi, [rbx+4]
    this.#code.push(0x8b, 0x7b, 4);
    this.#invoke('exit_group');
  }

  bytes(): Buffer {
    return Buffer.from(this.#code);
  }

  #arguments(values: readonly number[], from: number): void {
    for (const [index, value] of values.entries()) {
      this.#code.push(...X64_MOVE_TO_ARGUMENT[from + index]!, ...littleEndian(value));
    }
  }

  #invoke(name: SyscallName): void {
    // mov eax, number; syscall
    this.#code.push(0xb8, ...littleEndian(syscallNumber(name, 'x64')), 0x0f, 0x05);
  }
}

/** `mov` of a 32-bit constant to edi, esi, edx, r10d and r8d. */
const X64_MOVE_TO_ARGUMENT = [[0xbf], [0xbe], [0xba], [0x41, 0xba], [0x41, 0xb8]] as const;

class Arm64Code implements MachineCode {
  readonly #code: number[] = [];

  call(name: SyscallName, ...args: readonly number[]): void {
    for (const [register, value] of args.entries()) this.#move(register, value);
    this.#invoke(name);
  }

  /** A result stands where the first argument is expected. */
  callWithResult(name: SyscallName, ...more: readonly number[]): void {
    for (const [index, value] of more.entries()) this.#move(1 + index, value);
    this.#invoke(name);
  }

  unlessZero(onFailure: () => void): void {
    // cbz w0, over what follows
    const at = this.#code.push(0) - 1;
    onFailure();
    this.#code[at] = 0x34000000 | ((this.#code.length - at) << 5);
  }

  report(table: number): void {
    // neg w9, w0
    this.#code.push(0x4b0003e9);
    this.#move(10, table);
    this.#code.push(
      0xb940014b, // next: ldr w11, [x10]
      0x340000ab, // cbz w11, found
      0x6b09017f, // cmp w11, w9
      0x54000060, // b.eq found
      0x9100614a, // add x10, x10, #24
      0x17fffffb, // b next
      0xf9400541, // found: ldr x1, [x10, #8]
      0xf9400942, // ldr x2, [x10, #16]
    );
    this.#move(0, STDERR);
    this.#invoke('write');
    // ldr w0, [x10, #4]
    this.#code.push(0xb9400540);
    this.#invoke('exit_group');
  }

  bytes(): Buffer {
    return Buffer.from(this.#code.flatMap(littleEndian));
  }

  #invoke(name: SyscallName): void {
    this.#move(8, syscallNumber(name, 'arm64'));
    // svc #0
    this.#code.push(0xd4000001);
  }

  /** movz and movk of the two halves. */
  #move(register: number, value: number): void {
    this.#code.push(0x52800000 | ((value & 0xffff) << 5) | register);
    this.#code.push(0x72a00000 | ((value >>> 16) << 5) | register);
  }
}

function littleEndian(value: number): [number, number, number, number] {
  return [value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24];
}
