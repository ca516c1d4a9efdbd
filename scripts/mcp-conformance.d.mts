export declare function ensureMcpConformance(): Promise<readonly [node: string, suite: string]>;
