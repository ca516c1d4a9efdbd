import type { Enclose } from '../start-program.ts';
import type { LoginCommand } from './login-command.ts';
import type { ShellStates } from './shell-states.ts';

/** What a command and its login shell run inside of; null where that is nothing. */
export interface LoginConfinement {
  /** In any words that are equal for equal confinements. */
  readonly description: unknown;
  readonly forShell: Enclose | null;
  readonly forCommand: Enclose | null;
}

/** Gives a command its login shell's state before it is confined. */
export function afterLogin(
  states: Pick<ShellStates, 'restored'>,
  login: LoginCommand,
  { description, forShell, forCommand }: LoginConfinement,
): Enclose {
  return async (spec, signal) => {
    const place = { spec, confinement: description, enclose: forShell };
    const restored = await states.restored(login, place, signal);
    return (await forCommand?.(restored, signal)) ?? { spec: restored, judge: null, release: null };
  };
}
