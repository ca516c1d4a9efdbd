export declare const NODE_VERSIONS: readonly string[];
