import {
  AgentExec,
  type AgentExecOptions,
  type ExecCommandArguments,
  type ExecContext,
  type ExecEvent,
  ExecToolError,
  type ToolOutput,
  type WriteStdinArguments,
} from '../../../src/agent/index.ts';
import { ManualClock, settled } from './manual-clock.ts';
import { ScriptedBackend, type ScriptedProcess } from './scripted-backend.ts';

/** A call and its result. */
export interface Call {
  readonly output: ToolOutput | null;
  readonly error: ExecToolError | null;
  /** The text after the header. */
  readonly text: string;
}

/** The tools over a scripted backend, with a manual clock. */
export class AgentFixture {
  readonly clock = new ManualClock();
  readonly backend = new ScriptedBackend();
  readonly events: ExecEvent[] = [];
  readonly agent: AgentExec;
  #ids = 0;

  constructor(options: Partial<AgentExecOptions> = {}) {
    this.agent = new AgentExec({
      targets: [
        { id: 'main', backend: this.backend, shell: { name: 'bash', path: '/bin/bash' }, cwd: 'file:///ws' },
      ],
      onEvent: (event) => this.events.push(event),
      clock: this.clock,
      // Session ids count from 1000. Each chunk id uses a number, too.
      random: () => this.#ids++ / 99_000,
      ...options,
    });
  }

  /** Starts a call and runs it until it waits for a timer. */
  async exec(args: Partial<ExecCommandArguments> = {}, context: Partial<ExecContext> = {}): Promise<Call> {
    return this.#begin(this.agent.execCommand({ cmd: 'work', ...args }, { callId: 'call-1', ...context }));
  }

  async write(args: WriteStdinArguments, context: { signal?: AbortSignal } = {}): Promise<Call> {
    return this.#begin(this.agent.writeStdin(args, context));
  }

  /** Starts a program that keeps running after its first call. */
  async running(args: Partial<ExecCommandArguments> = {}): Promise<{ process: ScriptedProcess; id: number }> {
    const call = await this.exec({ ...args, yield_time_ms: 250 });
    await this.clock.advance(250);
    return { process: this.backend.last, id: call.output!.sessionId! };
  }

  /** A summary of the events. */
  get story(): string[] {
    return this.events.map(inShort);
  }

  async #begin(promise: Promise<ToolOutput>): Promise<Call> {
    const call: { output: ToolOutput | null; error: ExecToolError | null; text: string } = {
      output: null,
      error: null,
      text: '',
    };
    promise.then(
      (output) => {
        call.output = output;
        call.text = output.structured.output;
      },
      (error: unknown) => {
        if (!(error instanceof ExecToolError)) throw error;
        call.error = error;
        call.text = error.output?.structured.output ?? '';
      },
    );
    await settled();
    return call;
  }
}

function inShort(event: ExecEvent): string {
  switch (event.type) {
    case 'begin':
      return `begin ${event.callId} ${event.processId}`;
    case 'outputDelta':
      return `delta ${JSON.stringify(Buffer.from(event.chunk, 'base64').toString())}`;
    case 'terminalInteraction':
      return `typed ${JSON.stringify(event.stdin)}`;
    case 'networkDecision':
      return `${event.decision} ${event.host}:${event.port} ${event.reason}`;
    case 'end':
      return `end ${event.exitCode} ${event.status}`;
  }
}
