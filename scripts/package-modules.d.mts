export declare function reachableModules(): Set<string>;
export declare function reachableDeclarations(): Set<string>;
