import { describe, expect, it } from 'vitest';
import type { ClientError } from '../../../src/client/errors.ts';
import type { SelectedCapabilityRoot } from '../../../src/environment/capability-roots/selected-root.ts';
import { Provisioning } from '../../../src/environment/provisioning.ts';

function root(id: string, environmentId = 'box'): SelectedCapabilityRoot {
  return { id, location: { type: 'environment', environmentId, path: `file:///${id}` } };
}

const never = new AbortController().signal;

describe('a provisioned environment', () => {
  it('waits for its owner', async () => {
    const provisioning = new Provisioning('box');
    expect(provisioning.status).toBe('pending');
    expect(provisioning.roots).toEqual([]);
    const waiting = provisioning.wait(never);
    provisioning.report({ status: 'ready', roots: [root('a')] });
    await waiting;
    await provisioning.wait(never);
    expect(provisioning.roots).toEqual([root('a')]);
  });

  it('accepts other roots later, but not invalid ones', () => {
    const provisioning = new Provisioning('box');
    provisioning.report({ status: 'ready', roots: [root('a')] });
    provisioning.report({ status: 'ready', roots: [root('b'), root('c')] });
    expect(() => provisioning.report({ status: 'ready', roots: [root(' ')] })).toThrow('an id is blank');
    expect(provisioning.status).toBe('ready');
    expect(provisioning.roots.map(({ id }) => id)).toEqual(['b', 'c']);
  });

  it('keeps its first failure', async () => {
    const provisioning = new Provisioning('box');
    const heard: string[] = [];
    provisioning.onFailure((error) => heard.push(error.message));
    const waiting = provisioning.wait(never);
    provisioning.report({ status: 'failed', error: 'no quota' });
    provisioning.report({ status: 'failed', error: 'another' });
    await expect(waiting).rejects.toMatchObject({ message: 'no quota', retryable: false });
    provisioning.onFailure((error) => heard.push(`late: ${error.message}`));
    expect(heard).toEqual(['no quota', 'late: no quota']);
  });

  it('never changes from ready to failed or back', () => {
    const ready = new Provisioning('box');
    ready.report({ status: 'ready', roots: [] });
    expect(() => ready.report({ status: 'failed', error: 'x' })).toThrow(
      "environment 'box' is ready and cannot become failed",
    );
    const failed = new Provisioning('box');
    failed.report({ status: 'failed', error: 'x' });
    expect(() => failed.report({ status: 'ready', roots: [] })).toThrow(
      "environment 'box' is failed and cannot become ready",
    );
    expect([ready.status, failed.status]).toEqual(['ready', 'failed']);
  });

  it.each([
    [
      'too many',
      Array.from({ length: 257 }, (_, n) => root(`r${n}`)),
      'there are 257, and at most 256 are allowed',
    ],
    ['blank ids', [root('a'), root('\t')], 'an id is blank'],
    ['an id twice', [root('a'), root('a')], "the id 'a' occurs twice"],
    ['another environment', [root('a', 'other')], "root 'a' belongs to environment 'other'"],
  ])('fails when its roots are invalid: %s', (_name, roots, problem) => {
    const provisioning = new Provisioning('box');
    let error: ClientError | null = null;
    provisioning.onFailure((failure) => {
      error = failure;
    });
    const message = `the capability roots of environment 'box' are invalid: ${problem}`;
    expect(() => provisioning.report({ status: 'ready', roots })).toThrow(message);
    expect(provisioning.status).toBe('failed');
    expect(error).toMatchObject({ message });
  });

  it('accepts 256 roots', () => {
    const provisioning = new Provisioning('box');
    provisioning.report({ status: 'ready', roots: Array.from({ length: 256 }, (_, n) => root(`r${n}`)) });
    expect(provisioning.roots).toHaveLength(256);
  });

  it('can be waited for with a signal', async () => {
    const provisioning = new Provisioning('box');
    const abort = new AbortController();
    const waiting = provisioning.wait(abort.signal);
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(provisioning.wait(AbortSignal.abort(new Error('at once')))).rejects.toThrow('at once');
  });
});
