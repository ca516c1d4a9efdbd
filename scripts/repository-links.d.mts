export declare function repositoryHome(): string;
export declare function repositoryUrl(): string;
export declare function readPage(page: string, folder?: string): string;
