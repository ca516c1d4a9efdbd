import { close, fstat, ftruncate, open, type Stats } from 'node:fs';

/**
 * File descriptors without Node's FileHandle, which costs as much as the system calls on a small file. Only the owner closes a
 * descriptor, and not while an operation on it is in progress.
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
