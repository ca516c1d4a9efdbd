export declare const NODE_VERSIONS: readonly string[];
export declare function ensureNode(version: string): Promise<string>;
