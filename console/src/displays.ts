import type { ProcessInfo } from '../../src/client/browser.ts';
import type { ProcessDisplay, ProcessSession } from './connection/process-session.ts';
import { OutputDisplay } from './views/output/output-display.ts';

/** Creates what shows a process. The terminal is loaded on first use. */
export async function createDisplay(session: ProcessSession, info: ProcessInfo): Promise<ProcessDisplay> {
  if (!info.tty) return new OutputDisplay();
  const { TerminalDisplay } = await import('./views/terminal/terminal-display.ts');
  return new TerminalDisplay(session);
}
