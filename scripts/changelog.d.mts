export declare function changelogSections(text: string): Map<string, string>;
export declare function changelogErrors(text: string, version: string, hasChanges: boolean): string[];
