export const CHROMIUM: string | undefined;
export const CHROMIUM_FLAGS: string[];
export function chromiumMissing(): string | null;
