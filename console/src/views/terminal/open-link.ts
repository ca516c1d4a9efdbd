/** Opens a web page without giving it access to this one. */
export function openLink(target: string): void {
  const url = URL.canParse(target) ? new URL(target) : null;
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return;
  window.open(url.href, '_blank', 'noopener,noreferrer');
}
