import { expectTypeOf, test } from 'vitest';
import {
  type CapabilityDiscovery,
  type DiscoveryCache,
  type Environment,
  type EnvironmentManager,
  type EnvironmentStatus,
  type EnvironmentTransport,
  type ExecBackend,
  type ExecutorFetch,
  type ExecutorFileSystem,
  type ExecutorHttp,
  type Files,
  forkThread,
  type LocalEnvironment,
  McpRuntime,
  type McpTransport,
  projectSkills,
  type RemoteEnvironment,
  resolveStepRoots,
  restoreSelection,
  type SelectedCapabilityRoot,
  type SelectionMetadata,
  type StepDiscovery,
  type StepSnapshot,
  selectionMetadata,
  selectRoot,
  ThreadEnvironments,
  type ThreadLog,
  type ThreadStore,
} from '../../../src/environment/index.ts';

test('local and remote environments implement Environment', () => {
  expectTypeOf<LocalEnvironment>().toExtend<Environment>();
  expectTypeOf<RemoteEnvironment>().toExtend<Environment>();
  expectTypeOf<Environment['backend']>().toEqualTypeOf<ExecBackend>();
  expectTypeOf<Environment['getExecBackend']>().returns.toEqualTypeOf<ExecBackend>();
  expectTypeOf<Environment['fileSystem']>().toEqualTypeOf<ExecutorFileSystem>();
  expectTypeOf<Environment['files']>().toExtend<Files>();
  expectTypeOf<Environment['discovery']>().toEqualTypeOf<CapabilityDiscovery>();
  expectTypeOf<Environment['http']>().toEqualTypeOf<ExecutorHttp>();
  expectTypeOf<Environment['fetch']>().toEqualTypeOf<ExecutorFetch>();
  expectTypeOf<Environment['status']>().returns.resolves.toEqualTypeOf<EnvironmentStatus>();
});

test('transports are discriminated by type', () => {
  expectTypeOf<EnvironmentTransport['type']>().toEqualTypeOf<'websocket' | 'stdio' | 'opener'>();
  const add = (manager: EnvironmentManager) => manager.add('a', { type: 'websocket', url: 'ws://x' });
  expectTypeOf(add).returns.toEqualTypeOf<Environment>();
  // @ts-expect-error: a program has no URL.
  const mixed = (manager: EnvironmentManager) => manager.add('a', { type: 'stdio', url: 'ws://x' });
  expectTypeOf(mixed).toBeFunction();
});

test('threads and steps accept a manager', () => {
  expectTypeOf(ThreadEnvironments).toBeConstructibleWith({} as EnvironmentManager);
  expectTypeOf<ThreadEnvironments['beginTurn']>().returns.resolves.toEqualTypeOf<StepSnapshot>();
  const resolve = (step: StepSnapshot, registry: EnvironmentManager) =>
    resolveStepRoots({ threadRoots: [], captured: step.captured, registry });
  type Resolved = Awaited<ReturnType<typeof resolve>>[number];
  expectTypeOf<Resolved['environment']>().toEqualTypeOf<Environment>();
  expectTypeOf<DiscoveryCache['discover']>().toBeCallableWith([] as Resolved[]);
});

test('a selection converts to a record and back', () => {
  expectTypeOf(selectRoot).returns.toEqualTypeOf<SelectedCapabilityRoot>();
  expectTypeOf(selectionMetadata).returns.toEqualTypeOf<SelectionMetadata>();
  expectTypeOf(restoreSelection).toBeCallableWith({ ...selectionMetadata([]), id: 'thread' });
  expectTypeOf(restoreSelection).toBeCallableWith(selectionMetadata([]));
  expectTypeOf(restoreSelection).returns.toEqualTypeOf<readonly SelectedCapabilityRoot[]>();
  const fork = () => forkThread({ metadata: {}, turns: [1, 2] }, { lastTurns: 1 });
  expectTypeOf(fork).returns.toHaveProperty('turns').toEqualTypeOf<readonly number[]>();
});

test('a thread store returns logs that a fork accepts', () => {
  expectTypeOf<ThreadStore['create']>().returns.resolves.toEqualTypeOf<ThreadLog>();
  expectTypeOf<ThreadStore['resume']>().returns.resolves.toEqualTypeOf<ThreadLog>();
  expectTypeOf<ThreadStore['fork']>().returns.resolves.toEqualTypeOf<ThreadLog>();
  expectTypeOf<ThreadLog['roots']>().toEqualTypeOf<readonly SelectedCapabilityRoot[]>();
  expectTypeOf<ThreadLog['append']>().toBeCallableWith({ user: 'hello' });
  // @ts-expect-error: a turn is an object.
  const text = (log: ThreadLog) => log.append('hello');
  expectTypeOf(text).toBeFunction();
});

test('the skills and MCP servers of a step have its handles and clients', () => {
  const skills = (cache: DiscoveryCache, discovered: StepDiscovery<Environment>[]) =>
    projectSkills({ selected: [], discovered, cache });
  type Skill = Awaited<ReturnType<typeof skills>>['skills'][number];
  expectTypeOf<Skill['environment']>().toEqualTypeOf<Environment | null>();
  const runtime = () => new McpRuntime({ connect: async (_: McpTransport) => 7 });
  type Server = Awaited<ReturnType<ReturnType<typeof runtime>['update']>>['servers'][number];
  expectTypeOf<Server['client']>().toEqualTypeOf<number | null>();
  expectTypeOf<Server & { state: 'ready' }>().toHaveProperty('client').toEqualTypeOf<number>();
});
