export declare function ensurePackage(
  name: string,
  version: string,
  find: (folder: string) => string | undefined,
  moreFlags?: readonly string[],
): Promise<string>;
