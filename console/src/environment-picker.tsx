import type { JSX } from 'preact';
import { go, hrefOf } from './base/route.ts';
import { useStore } from './base/store.ts';
import { unreachable } from './connection/environment-connection.ts';
import type { Environment, Session } from './session/api.ts';
import { Empty } from './ui/empty.tsx';
import { Icon } from './ui/icons.tsx';

/** Shows the environment, and lets the user choose another one where there are several. */
export function EnvironmentPicker({
  session,
  current,
}: {
  session: Session;
  current: Environment;
}): JSX.Element {
  const down = useStore(unreachable);
  if (session.environments.length < 2) {
    return (
      <div class="environment" title={current.address}>
        <Icon name="machine" size={15} />
        <span class="ellipsis">{current.label}</span>
      </div>
    );
  }
  return (
    <label class="environment select" title={current.address}>
      <Icon name="machine" size={15} />
      <select
        aria-label="Environment"
        value={current.name}
        onChange={(event) => {
          const environment = event.currentTarget.value;
          // The page may ask before it leaves the present environment.
          event.currentTarget.value = current.name;
          go({ environment, item: null });
        }}
      >
        {session.environments.map(({ name, label, address }) => (
          <option key={name} value={name} title={address}>
            {down.has(name) ? `${label} (unreachable)` : label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Says that an address names an environment that this console does not show, and offers those that it does. */
export function UnknownEnvironment({ session, name }: { session: Session; name: string }): JSX.Element {
  return (
    <main class="unknown-environment">
      <Empty icon="machine" title={`There is no environment ${name} here`}>
        <p>This console shows:</p>
        <ul>
          {session.environments.map((each) => (
            <li key={each.name}>
              <a
                class="button"
                href={hrefOf({ environment: each.name, view: 'processes', item: null })}
                title={each.address}
              >
                {each.label}
              </a>
            </li>
          ))}
        </ul>
      </Empty>
    </main>
  );
}
