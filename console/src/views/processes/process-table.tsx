import { Component, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ProcessInfo } from '../../../../src/client/browser.ts';
import { formatBytes, formatCommand, formatDuration, formatTime } from '../../base/format.ts';
import { hrefOf, route } from '../../base/route.ts';
import { Icon } from '../../ui/icons.tsx';
import { Spacer, useRowWindow } from '../../ui/virtual-rows.tsx';
import { statusOf } from './process-status.ts';

const ROW_HEIGHT = 38;
const PHONE_ROW_HEIGHT = 60;
const PHONE = matchMedia('(max-width: 700px)');

/** A table that renders only visible rows. One row is current: arrow keys move it, Enter opens it, Delete ends its process. */
export function ProcessTable({
  processes,
  ports,
  showOwner,
  onOpen,
  onKill,
}: {
  processes: readonly ProcessInfo[];
  ports: ReadonlyMap<string, readonly number[]>;
  showOwner: boolean;
  onOpen: (process: ProcessInfo) => void;
  onKill: ((process: ProcessInfo) => void) | null;
}): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState<string | null>(null);
  const rowHeight = usePhone() ? PHONE_ROW_HEIGHT : ROW_HEIGHT;
  const { first, last } = useRowWindow(scroller, processes.length, rowHeight);
  const now = useNow();
  const index = processes.findIndex((process) => keyOf(process) === current);

  const move = (to: number) => {
    const next = processes[Math.max(0, Math.min(processes.length - 1, to))]!;
    setCurrent(keyOf(next));
    const element = scroller.current!;
    const top = processes.indexOf(next) * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    const bottom = top + rowHeight - element.clientHeight;
    if (bottom > element.scrollTop) element.scrollTop = bottom;
  };
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(index + 1),
    ArrowUp: () => move(index - 1),
    PageDown: () => move(index + 10),
    PageUp: () => move(index - 10),
    Home: () => move(0),
    End: () => move(processes.length - 1),
    Enter: () => index >= 0 && onOpen(processes[index]!),
    Delete: () => index >= 0 && processes[index]!.state !== 'closed' && onKill?.(processes[index]!),
  };

  return (
    <div class={showOwner ? 'table with-owner' : 'table'}>
      <div class="row head" aria-hidden="true">
        <span />
        <span>Process</span>
        <span>Command</span>
        {showOwner && <span>Owner</span>}
        <span>Ports</span>
        <span class="number">Output</span>
        <span class="number" title="How long it has run">
          Time
        </span>
        <span>State</span>
        <span />
      </div>
      <div
        ref={scroller}
        class="rows"
        role="grid"
        aria-label="Processes"
        aria-rowcount={processes.length}
        aria-activedescendant={index >= first && index < last ? `row-${current}` : undefined}
        tabIndex={0}
        onFocus={(event) => {
          if (event.target === scroller.current && index < 0) move(0);
        }}
        onKeyDown={(event) => {
          if (event.target !== scroller.current || event.ctrlKey || event.altKey || event.metaKey) return;
          const action = keys[event.key];
          if (action === undefined) return;
          event.preventDefault();
          action();
        }}
      >
        <Spacer rows={first} rowHeight={rowHeight} />
        {processes.slice(first, last).map((process, offset) => (
          <Row
            key={keyOf(process)}
            process={process}
            ports={ports.get(process.ref ?? '') ?? NO_PORTS}
            time={formatDuration((process.endedAt?.getTime() ?? now) - process.startedAt.getTime())}
            position={first + offset + 1}
            isCurrent={keyOf(process) === current}
            showOwner={showOwner}
            onKill={onKill}
          />
        ))}
        <Spacer rows={processes.length - last} rowHeight={rowHeight} />
      </div>
    </div>
  );
}

const NO_PORTS: readonly number[] = [];

interface RowProps {
  readonly process: ProcessInfo;
  readonly ports: readonly number[];
  readonly time: string;
  readonly position: number;
  readonly isCurrent: boolean;
  readonly showOwner: boolean;
  readonly onKill: ((process: ProcessInfo) => void) | null;
}

/** A row that renders only when what it shows has changed: the table renders every second. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    return (Object.keys(next) as (keyof RowProps)[]).some((name) => next[name] !== this.props[name]);
  }

  override render(props: RowProps): JSX.Element {
    return <RowCells {...props} />;
  }
}

function RowCells({ process, ports, time, position, isCurrent, showOwner, onKill }: RowProps): JSX.Element {
  const status = statusOf(process);
  const command = formatCommand(process.argv);
  const { endedAt } = process;
  const href = hrefOf({ ...route.value, view: 'processes', item: process.ref ?? process.processId });
  return (
    <div
      id={`row-${keyOf(process)}`}
      class={`row ${status.kind}${isCurrent ? ' current' : ''}`}
      role="row"
      aria-rowindex={position}
      aria-selected={isCurrent}
    >
      <span class="cell-dot" role="gridcell">
        <span class={`dot ${status.kind}`} title={status.detail} />
      </span>
      <span class="cell-name" role="gridcell">
        <a href={href} tabIndex={-1}>
          <span class="row-name">{process.name ?? process.ref ?? process.processId}</span>
          {process.name !== null && <span class="row-ref">{process.ref}</span>}
        </a>
      </span>
      <span class="cell-command" role="gridcell" title={`${command}\nin ${process.cwd}`}>
        <Icon name={process.tty ? 'terminal' : 'processes'} size={14} />
        <span>{command}</span>
      </span>
      {showOwner && (
        <span class="cell-owner" role="gridcell">
          {process.owner}
        </span>
      )}
      <span class="cell-ports" role="gridcell">
        {ports.slice(0, 3).map((port) => (
          <span key={port} class="chip" title={`Listens on port ${port}`}>
            :{port}
          </span>
        ))}
        {ports.length > 3 && <span class="chip">+{ports.length - 3}</span>}
      </span>
      <span class="cell-output number" role="gridcell">
        {process.outputBytes === null ? '' : formatBytes(process.outputBytes)}
      </span>
      <span
        class="cell-age number"
        role="gridcell"
        title={`Started ${formatTime(process.startedAt)}${endedAt === null ? '' : `, ended ${formatTime(endedAt)}`}`}
      >
        {time}
      </span>
      <span class={`cell-state ${status.kind}`} role="gridcell" title={status.detail}>
        {status.text}
        {process.attached.length > 0 && (
          <span
            class="attached"
            title={`${process.attached.length} attached: ${process.attached.map(({ client, role }) => `${client} (${role})`).join(', ')}`}
          >
            <Icon name="people" size={14} />
            {process.attached.length}
            <span class="offscreen"> attached</span>
          </span>
        )}
      </span>
      <span class="cell-actions" role="gridcell">
        {onKill !== null && process.state !== 'closed' && (
          <button
            type="button"
            class="icon-button small"
            tabIndex={isCurrent ? 0 : -1}
            aria-label={`End ${process.name ?? process.ref}`}
            title="End this process"
            onClick={() => onKill(process)}
          >
            <Icon name="stop" size={15} />
          </button>
        )}
      </span>
    </div>
  );
}

function keyOf({ ref, processId }: ProcessInfo): string {
  return ref ?? processId;
}

/** The time. Renders again every second. */
function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

function usePhone(): boolean {
  const [phone, setPhone] = useState(PHONE.matches);
  useEffect(() => {
    const changed = () => setPhone(PHONE.matches);
    PHONE.addEventListener('change', changed);
    return () => PHONE.removeEventListener('change', changed);
  }, []);
  return phone;
}
