export declare function ensurePackage(
  name: string,
  version: string,
  find: (folder: string) => string | undefined,
): Promise<string>;
