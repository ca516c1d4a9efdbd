import { describe, expect, it, vi } from 'vitest';
import type { DiscoveredRoot } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { DiscoveryCache } from '../../../../src/environment/capability-roots/discovery-cache.ts';
import type { SelectedCapabilityRoot } from '../../../../src/environment/capability-roots/selected-root.ts';
import { projectSkills } from '../../../../src/environment/capability-roots/step-skills.ts';
import * as metadata from '../../../../src/files/capability-discovery/skill-metadata.ts';
import { DISCOVERY_ANSWER_BYTES } from '../../../../src/files/limits.ts';
import { FakeDiscoverable, rootIn } from './support.ts';

/** A discovered root with files by path below it. */
function discovered(root: SelectedCapabilityRoot, skills: Record<string, string>): DiscoveredRoot {
  const { path } = root.location;
  return {
    id: root.id,
    path,
    plugin: null,
    skills: Object.entries(skills).map(([name, contents]) => ({
      instructions: { path: `${path}/${name}`, contents },
      metadata: null,
    })),
    namespaceManifests: [],
    warnings: [],
    error: null,
  };
}

function skill(name: string, description = `how to ${name}`): string {
  return `---\nname: ${name}\ndescription: ${description}\n---\nbody of ${name}`;
}

/** A thread with roots whose contents the test sets. */
class Thread {
  readonly cache = new DiscoveryCache();
  readonly selected: readonly SelectedCapabilityRoot[];
  readonly #contents: Readonly<Record<string, Record<string, string>>>;

  constructor(contents: Record<string, Record<string, string>>, environmentId = 'worker') {
    this.#contents = contents;
    this.selected = Object.keys(contents).map((id) => rootIn(environmentId, id));
  }

  /** Another handle of the same environment. */
  handle(id = 'worker'): FakeDiscoverable {
    const handle = new FakeDiscoverable(id);
    handle.answers = Array.from(
      { length: 9 },
      () => (roots) => roots.map((root) => discovered(rootIn(id, root.id), this.#contents[root.id]!)),
    );
    return handle;
  }

  /** The skills of a step in which these handles are ready. */
  async step(...handles: FakeDiscoverable[]) {
    const roots = this.selected.flatMap((root) => {
      const environment = handles.find(({ id }) => id === root.location.environmentId);
      return environment === undefined ? [] : [{ root, environment }];
    });
    const found = await this.cache.discover(roots);
    return projectSkills({ selected: this.selected, discovered: found, cache: this.cache });
  }
}

describe('the skills of a step', () => {
  it('have name, description, location and handle', async () => {
    const thread = new Thread({
      tools: {
        'a/SKILL.md': `---\nname: deploy\ndescription: >\n  Ship it,\n  safely.\nmetadata:\n  short-description: ship\n---\n`,
        'my%20notes/SKILL.md': '---\ndescription: take notes\n---\n',
      },
    });
    const worker = thread.handle();
    expect(await thread.step(worker)).toEqual({
      warnings: [],
      skills: [
        {
          name: 'deploy',
          description: 'Ship it, safely.',
          shortDescription: 'ship',
          path: 'file:///roots/tools/a/SKILL.md',
          rootId: 'tools',
          environmentId: 'worker',
          available: true,
          environment: worker,
        },
        expect.objectContaining({ name: 'my notes', description: 'take notes', shortDescription: null }),
      ],
    });
  });

  it('appear and disappear with their environment, and are read once', async () => {
    const parse = vi.spyOn(metadata, 'parseSkillHead');
    const thread = new Thread({ one: { 'SKILL.md': skill('one') }, two: { 'SKILL.md': skill('two') } });
    const [first, second] = [thread.handle(), thread.handle()];
    const view = async (...handles: FakeDiscoverable[]) =>
      (await thread.step(...handles)).skills.map(({ name, description, available, environment }) => [
        name,
        description,
        available,
        environment,
      ]);
    expect(await view()).toEqual([]);
    expect(await view(first)).toEqual([
      ['one', 'how to one', true, first],
      ['two', 'how to two', true, first],
    ]);
    expect(await view()).toEqual([
      ['one', 'how to one', false, null],
      ['two', 'how to two', false, null],
    ]);
    expect(await view(second)).toEqual([
      ['one', 'how to one', true, second],
      ['two', 'how to two', true, second],
    ]);
    expect(first.requests).toHaveLength(1);
    expect(second.requests).toEqual([]);
    expect(parse).toHaveBeenCalledTimes(2);
    parse.mockRestore();
  });

  it('have a limited size for each root, with a warning for each skill that is left out', async () => {
    const text = skill('s', `"${'\\e'.repeat(32_000)}x"`);
    const files = Array.from({ length: 400 }, (_, index) => [`${index}/SKILL.md`, text]);
    const thread = new Thread({ large: Object.fromEntries(files), other: { 'SKILL.md': skill('other') } });
    const { skills, warnings } = await thread.step(thread.handle());
    const sizes = skills.map(({ description }) => JSON.stringify(description).length);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(DISCOVERY_ANSWER_BYTES);
    expect(skills.length + warnings.length).toBe(401);
    expect(warnings[0]).toMatch(/SKILL.md is skipped: capability root exceeds the \d+-byte limit$/);
    expect(skills.at(-1)).toMatchObject({ name: 'other' });
  });

  it('leave out unusable files, with a warning in every step', async () => {
    const thread = new Thread({
      one: {
        'a/SKILL.md': 'no front matter',
        'b/SKILL.md': '---\nname: [\n---\n',
        'c/SKILL.md': '---\nname: c\n---\n',
        'd/SKILL.md': skill('d'),
      },
    });
    const worker = thread.handle();
    const warnings = [
      'skill file:///roots/one/a/SKILL.md is skipped: it does not start with front matter between lines of ---',
      expect.stringContaining('skill file:///roots/one/b/SKILL.md is skipped: '),
      'skill file:///roots/one/c/SKILL.md is skipped: it has no description',
    ];
    for (let step = 0; step < 2; step++) {
      const { skills, warnings: heard } = await thread.step(worker);
      expect(skills.map(({ name }) => name)).toEqual(['d']);
      expect(heard).toEqual(warnings);
    }
  });

  it('include a warning for a root that cannot be read, and appear when it can', async () => {
    const thread = new Thread({ one: { 'SKILL.md': skill('one') } });
    const worker = thread.handle();
    worker.unready = new ClientError('disconnected', 'gone');
    worker.answers.unshift(() => new ClientError('disconnected', 'connection lost'));
    expect(await thread.step(worker)).toEqual({
      skills: [],
      warnings: ["capability root 'one': connection lost"],
    });
    expect((await thread.step(worker)).skills).toHaveLength(1);
  });

  it('include those of roots that the thread did not select', async () => {
    const thread = new Thread({ one: { 'SKILL.md': skill('one') } });
    const worker = thread.handle();
    const found = await thread.cache.discover([{ root: thread.selected[0]!, environment: worker }]);
    const { skills } = await projectSkills({ selected: [], discovered: found, cache: thread.cache });
    expect(skills).toMatchObject([{ name: 'one', available: true }]);
    expect((await projectSkills({ selected: [], discovered: [], cache: thread.cache })).skills).toEqual([]);
  });

  it('belong to plugins of another operating system, too', async () => {
    const root = rootIn('windows', 'one', 'C:\\plugins\\one');
    const worker = new FakeDiscoverable('windows');
    const manifest = {
      path: `${root.location.path}/.codex-plugin/plugin.json`,
      contents: '{"name":"tools"}',
    };
    worker.answers = [
      () => [
        {
          ...discovered(root, { 'my%20skill/SKILL.md': '---\ndescription: d\n---\n' }),
          namespaceManifests: [manifest],
        },
      ],
    ];
    const cache = new DiscoveryCache();
    const found = await cache.discover([{ root, environment: worker }]);
    const { skills } = await projectSkills({ selected: [root], discovered: found, cache });
    expect(skills).toMatchObject([
      { name: 'tools:my skill', path: 'file:///C:/plugins/one/my%20skill/SKILL.md' },
    ]);
  });

  it('cannot be changed', async () => {
    const thread = new Thread({ one: { 'SKILL.md': skill('one') } });
    const step = await thread.step(thread.handle());
    expect(Object.isFrozen(step.skills) && Object.isFrozen(step.skills[0])).toBe(true);
  });
});
