/** Whether a server serves this page beside its websocket, and not the command `console`. The page says so before it has signed in. */
export function isServed(): boolean {
  return document.documentElement.dataset.servedBy === 'server';
}

/** The command that prints a link to this console. */
export function linkCommand(): string {
  const server = location.origin.replace(/^http/, 'ws');
  return isServed() ? `exec-server console --link -E ${server}` : 'exec-server console';
}
