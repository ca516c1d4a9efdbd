export function bundleFileHelper(options: {
  readonly source: string;
  readonly extension: string;
  readonly folder: string;
}): Promise<string[]>;
