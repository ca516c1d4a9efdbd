/** Start params that most tests share. */
export const plain = {
  cwd: 'file:///',
  env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
  tty: false,
} as const;

/** Params of a shell script on pipes. */
export function shell(processId: string, script: string) {
  return { processId, argv: ['/bin/sh', '-c', script], ...plain };
}

/** Params of a shell script on a terminal. */
export function terminal(processId: string, script: string) {
  return { ...shell(processId, script), tty: true };
}

export function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
