export declare function anchorOf(heading: string): string;
export declare function correctAnchors(folder: string): void;
export declare function brokenLinks(folder: string, base?: string): string[];
