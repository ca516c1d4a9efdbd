import type { Environment } from '../../../../src/environment/environment.ts';
import { RemoteEnvironment } from '../../../../src/environment/remote/remote-environment.ts';
import type { EnvironmentSelection } from '../../../../src/environment/turns/attachment.ts';
import type { StepSnapshot } from '../../../../src/environment/turns/step-snapshot.ts';
import { ThreadEnvironments } from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, refused } from '../fake-connector.ts';

/** A thread and its environments. */
export class ThreadFixture {
  readonly registry = new Map<string, RemoteEnvironment>();
  readonly warnings: string[] = [];
  readonly thread = new ThreadEnvironments({ get: (id) => this.registry.get(id) ?? null }, (text) =>
    this.warnings.push(text),
  );
  readonly #connectors = new Map<Environment, FakeConnector>();

  /** Registers a handle and replaces the one with the same id. */
  register(id: string, connector = new FakeConnector()): RemoteEnvironment {
    const environment = new RemoteEnvironment(id, connector);
    this.#connectors.set(environment, connector);
    this.registry.get(id)?.retire();
    this.registry.set(id, environment);
    environment.startConnecting();
    return environment;
  }

  connectorOf(environment: Environment): FakeConnector {
    return this.#connectors.get(environment)!;
  }
}

/** The selection of an environment. */
export function at(environmentId: string, more: Partial<EnvironmentSelection> = {}): EnvironmentSelection {
  return { environmentId, cwd: 'file:///w', ...more };
}

/** A summary of a step. */
export function shape(step: StepSnapshot): string[] {
  return step.environments.map(({ environmentId, state }) => `${environmentId} ${state}`);
}

/** Connects to an executor that is down. */
export function down(): FakeConnector {
  const connector = new FakeConnector();
  connector.respond = (attempt) => attempt.fail(refused());
  return connector;
}
