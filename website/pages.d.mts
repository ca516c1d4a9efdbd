export function copyPages(root: string, to: string): string[];
export function sidebarOf(
  root: string,
  apiPages: readonly SidebarLink[],
): { text: string; items: SidebarLink[] }[];
export function llmsText(folder: string, names: readonly string[], summary: string): string;

interface SidebarLink {
  text: string;
  link: string;
}
