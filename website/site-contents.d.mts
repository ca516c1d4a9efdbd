export interface SiteContents {
  readonly pages: readonly string[];
  readonly apiPages: readonly string[];
  readonly commands: readonly string[];
  readonly methods: readonly string[];
}

export declare function missingContents(folder: string, contents: SiteContents): string[];
