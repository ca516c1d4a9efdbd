import type { JSX, RefObject } from 'preact';
import { useEffect, useState } from 'preact/hooks';

const OVERSCAN = 12;

export interface RowWindow {
  readonly first: number;
  readonly last: number;
}

/** The rows of a scrolling container that are visible, for lists whose rows all have the same height. */
export function useRowWindow(
  container: RefObject<HTMLElement | null>,
  count: number,
  rowHeight: number,
): RowWindow {
  const [view, setView] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = container.current;
    if (element === null) return;
    let frame = 0;
    const measure = () => {
      frame = 0;
      setView({ top: element.scrollTop, height: element.clientHeight });
    };
    const schedule = () => {
      if (frame === 0) frame = requestAnimationFrame(measure);
    };
    const observer = new ResizeObserver(schedule);
    observer.observe(element);
    element.addEventListener('scroll', schedule, { passive: true });
    measure();
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
      element.removeEventListener('scroll', schedule);
    };
  }, [container.current]);
  const first = Math.max(0, Math.min(count, Math.floor(view.top / rowHeight) - OVERSCAN));
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN);
  return { first, last };
}

/** Takes the space of rows that are not rendered. */
export function Spacer({ rows, rowHeight }: { rows: number; rowHeight: number }): JSX.Element | null {
  return rows === 0 ? null : <div style={{ height: `${rows * rowHeight}px` }} aria-hidden="true" />;
}
