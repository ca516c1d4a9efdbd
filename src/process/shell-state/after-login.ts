import type { WrapInSandbox } from '../start-program.ts';
import type { LoginCommand } from './login-command.ts';
import type { ShellStates } from './shell-states.ts';

/** What a command and its login shell run inside of; null where that is nothing. */
export interface LoginSandbox {
  /** In any words that are equal for equal sandboxes. */
  readonly description: unknown;
  readonly forShell: WrapInSandbox | null;
  readonly forCommand: WrapInSandbox | null;
}

/** Gives a command its login shell's state before it is sandboxed. */
export function afterLogin(
  states: Pick<ShellStates, 'restored'>,
  login: LoginCommand,
  { description, forShell, forCommand }: LoginSandbox,
): WrapInSandbox {
  return async (spec, signal) => {
    const place = { spec, sandbox: description, wrapInSandbox: forShell };
    const restored = await states.restored(login, place, signal);
    return (await forCommand?.(restored, signal)) ?? { spec: restored, judge: null, release: null };
  };
}
