/** A check of `doctor`. */
export interface MachineCheck {
  readonly name: string;
  readonly state: 'ok' | 'failed' | 'missing' | 'untested';
  readonly detail: string;
  readonly fix: string | null;
}

/** A limit of the server and its value, for people. */
export interface MachineLimit {
  readonly name: string;
  readonly value: string;
  readonly isDefault: boolean;
  readonly description: string;
}

/** The answer to `GET /console/machine`: what the page shows about the machine and its server. */
export interface MachineReport {
  readonly version: string;
  readonly node: string;
  readonly system: string;
  readonly hostname: string;
  readonly cpus: number;
  readonly loadAverage: readonly number[];
  readonly memory: { readonly totalBytes: number; readonly freeBytes: number };
  readonly uptimeSeconds: number;
  readonly checks: readonly MachineCheck[];
  readonly limits: readonly MachineLimit[];
  /** Null without the scope `metrics`, and for another process. */
  readonly metrics: Readonly<Record<string, unknown>> | null;
  /** The latest records, the oldest first. Null without the scopes `metrics` and `observe`, and without an audit log. */
  readonly audit: readonly object[] | null;
}
