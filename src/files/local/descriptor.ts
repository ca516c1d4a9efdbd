import { close, fstat, ftruncate, open, type Stats } from 'node:fs';

/**
 * Descriptors without Node's FileHandle around them, which costs as much as the system calls on a small file. Nothing but their
 * owner closes them, and nothing may be under way on one that is closed.
 */
export function openDescriptor(path: string | Buffer, flags: number, mode?: number): Promise<number> {
  return new Promise((resolve, reject) => {
    open(path, flags, mode, (error, fd) => (error === null ? resolve(fd) : reject(error)));
  });
}

export function statDescriptor(fd: number): Promise<Stats> {
  return new Promise((resolve, reject) => {
    fstat(fd, (error, stats) => (error === null ? resolve(stats) : reject(error)));
  });
}

export function truncateDescriptor(fd: number, length: number): Promise<void> {
  return new Promise((resolve, reject) => {
    ftruncate(fd, length, (error) => (error ? reject(error) : resolve()));
  });
}

export function closeDescriptor(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    close(fd, (error) => (error ? reject(error) : resolve()));
  });
}
