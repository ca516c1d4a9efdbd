/** Path of helm. Rejects where npm has none for this system. */
export declare function ensureHelm(): Promise<string>;
/** Path of the node_modules folder that has `kubernetes-models`. */
export declare function ensureKubernetesModels(): Promise<string>;
