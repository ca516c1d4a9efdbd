/** Proxies on this machine that one sandboxed program may reach; environments name one or two. */
export const MAX_BRIDGED_PORTS = 8;
