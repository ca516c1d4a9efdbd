import type { ExecServerClient, ProcessInfo } from '../../../src/client/browser.ts';
import { Store } from '../base/store.ts';
import type { Session } from '../session/api.ts';
import { EnvironmentConnection } from './environment-connection.ts';
import { ProcessList } from './process-list.ts';
import { type ProcessDisplay, ProcessSession } from './process-session.ts';

/** Open tabs keep their terminals, each with its history. */
const MAX_TABS = 16;

/** What the page keeps for one environment: its connection, its processes, its open tabs. */
export class Workspace {
  readonly connection: EnvironmentConnection;
  readonly list: ProcessList;
  readonly tabs = new Store<readonly ProcessSession[]>([]);
  readonly session: Session;
  /** The name of the environment for people. */
  readonly label: string;
  /** Where commands and the view of files begin: `~` for the home directory there, null for the directory of the server. */
  readonly directory: string | null;
  /** The folder that was looked at last. */
  folder: string | null = null;
  readonly #createDisplay: (session: ProcessSession, info: ProcessInfo) => Promise<ProcessDisplay>;
  readonly #storageKey: string;

  constructor(
    environment: string,
    session: Session,
    createDisplay: (session: ProcessSession, info: ProcessInfo) => Promise<ProcessDisplay>,
  ) {
    this.session = session;
    const described = session.environments.find(({ name }) => name === environment);
    this.label = described?.label ?? environment;
    this.directory = session.scopes.below ?? described?.directory ?? null;
    this.#createDisplay = createDisplay;
    this.#storageKey = `exec-server-console.tabs.${environment}`;
    this.connection = new EnvironmentConnection(environment);
    this.list = new ProcessList(this.connection, {
      mayList: this.maySeeProcesses,
      mayWatchPorts: session.scopes.net,
      // A viewer without the right to start anything may have no processes of its own.
      everyone: session.scopes.observe && !session.scopes.exec,
    });
    // Each tab that opens overwrites what is remembered.
    for (const ref of this.#remembered()) this.open(ref);
  }

  /** Whether processes and recordings can be listed, as far as the console knows. */
  get maySeeProcesses(): boolean {
    return this.session.scopes.processes;
  }

  get mayExec(): boolean {
    return !this.session.readOnly && this.session.scopes.exec;
  }

  get mayWriteFiles(): boolean {
    return !this.session.readOnly && this.session.scopes.files === 'write';
  }

  /** The path where commands and the view of files begin; null for the directory of the server. */
  async startDirectory(client: ExecServerClient): Promise<string | null> {
    if (this.directory !== '~') return this.directory;
    return (await client.info()).userHomeDir ?? null;
  }

  /** Opens a tab for a process, or returns the one that it has. */
  open(ref: string): ProcessSession {
    const known = this.tabs.value.find((tab) => tab.ref === ref);
    if (known !== undefined) return known;
    const tab = new ProcessSession(this.connection, this.list, ref, {
      readOnly: !this.mayExec,
      createDisplay: this.#createDisplay,
    });
    const [oldest, ...others] = this.tabs.value;
    if (oldest !== undefined && this.tabs.value.length >= MAX_TABS) {
      oldest.close();
      this.#setTabs([...others, tab]);
    } else this.#setTabs([...this.tabs.value, tab]);
    return tab;
  }

  closeTab(ref: string): void {
    this.tabs.value.find((tab) => tab.ref === ref)?.close();
    this.#setTabs(this.tabs.value.filter((tab) => tab.ref !== ref));
  }

  close(): void {
    for (const tab of this.tabs.value) tab.close();
    this.list.close();
    this.connection.close();
  }

  /** References of the tabs that were open before the page was loaded again. */
  #remembered(): readonly string[] {
    try {
      const saved: unknown = JSON.parse(sessionStorage.getItem(this.#storageKey) ?? '[]');
      return Array.isArray(saved) ? saved.filter((ref) => typeof ref === 'string').slice(0, MAX_TABS) : [];
    } catch {
      return [];
    }
  }

  #setTabs(tabs: readonly ProcessSession[]): void {
    this.tabs.set(tabs);
    sessionStorage.setItem(this.#storageKey, JSON.stringify(tabs.map(({ ref }) => ref)));
  }
}
