export function replaceReleaseFolder(draft: string, target: string): void;
