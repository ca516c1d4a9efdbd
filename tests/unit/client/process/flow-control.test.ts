import { expect, test } from 'vitest';
import { FlowControl } from '../../../../src/client/process/flow-control.ts';

function flowControl() {
  const reports: number[] = [];
  const flow = new FlowControl(1_000);
  const join = (afterSeq = 0) => {
    const handle = {};
    const { consumed } = flow.join(handle, afterSeq, (seq) => void reports.push(seq))!;
    return { consumed, leave: () => flow.leave(handle) };
  };
  return { reports, join };
}

test('reports what every handle of a process has used, once', () => {
  const { reports, join } = flowControl();
  const [one, other] = [join(), join()];
  one.consumed(5);
  expect(reports).toEqual([]);
  other.consumed(3);
  other.consumed(3);
  expect(reports).toEqual([3]);
  other.consumed(9);
  expect(reports).toEqual([3, 5]);
});

test('a handle that leaves no longer counts', () => {
  const { reports, join } = flowControl();
  const [one, other] = [join(), join()];
  one.consumed(5);
  other.leave();
  expect(reports).toEqual([5]);
  other.consumed(7);
  one.leave();
  one.leave();
  expect(reports).toEqual([5]);
});

test('a handle that begins earlier does not take back what was reported', () => {
  const { reports, join } = flowControl();
  join(4).consumed(8);
  const late = join();
  late.consumed(6);
  expect(reports).toEqual([8]);
});

test('a server without flow control gets no reports', () => {
  expect(new FlowControl(null).join({}, 0, () => {})).toBe(null);
});
