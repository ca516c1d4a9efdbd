import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { SpawnOptions } from '../../../../src/client/browser.ts';
import { describeError } from '../../base/format.ts';
import { go } from '../../base/route.ts';
import { useStore } from '../../base/store.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { isTyping } from './processes-view.tsx';

interface Options {
  readonly tty: boolean;
  readonly name: string;
  readonly cwd: string;
  readonly env: string;
  readonly minutes: string;
  readonly sandbox: 'none' | 'readOnly' | 'workspaceWrite';
  readonly stdin: boolean;
  readonly record: boolean;
}

const NOTHING_SET: Options = {
  tty: true,
  name: '',
  cwd: '',
  env: '',
  minutes: '',
  sandbox: 'none',
  stdin: false,
  record: false,
};

/** Starts a command. It is detached, so that it survives this page. */
export function StartCommand({ workspace }: { workspace: Workspace }): JSX.Element {
  const client = useStore(workspace.connection.client);
  const [command, setCommand] = useState('');
  const [options, setOptions] = useState(NOTHING_SET);
  const [isOpen, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const set = <K extends keyof Options>(name: K, value: Options[K]) =>
    setOptions({ ...options, [name]: value });

  useLayoutEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.key !== 'n' || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target))
        return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, []);

  const start = async () => {
    const current = workspace.connection.client.value;
    if (command.trim() === '' || current === null || busy) return;
    setBusy(true);
    setError(null);
    try {
      const directory = await workspace.startDirectory(current);
      const process = await current.spawn(command, spawnOptions(options, directory));
      setCommand('');
      setOptions({ ...options, name: '' });
      workspace.list.refresh();
      const ref = process.ref ?? process.processId;
      // The tab attaches by itself: with the screen, and with a window of its own.
      await process.detach();
      go({ view: 'processes', item: ref });
    } catch (failure) {
      // The field of the page has another name than the option of the library.
      const reason = describeError(failure).replace(
        'pass another `cwd`',
        'choose another one in the options',
      );
      setError(`The command was not started. ${reason}`);
    } finally {
      setBusy(false);
    }
  };

  return (
    <form
      class="start"
      onSubmit={(event) => {
        event.preventDefault();
        void start();
      }}
    >
      <div class="start-line">
        <span class="prompt" aria-hidden="true">
          $
        </span>
        <input
          ref={field}
          class="mono"
          aria-label="Command to start"
          aria-keyshortcuts="n"
          placeholder="Start a command, for example: npm test"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          value={command}
          onInput={(event) => setCommand(event.currentTarget.value)}
        />
        <button
          type="button"
          class={isOpen ? 'icon-button on' : 'icon-button'}
          aria-expanded={isOpen}
          aria-controls="start-options"
          aria-label="Options"
          title="Options"
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name="sliders" />
        </button>
        <button
          type="submit"
          class="button primary"
          disabled={busy || client === null || command.trim() === ''}
        >
          <Icon name="play" size={14} />
          Start
        </button>
      </div>
      {isOpen && (
        <div class="start-options" id="start-options">
          <fieldset class="segments-field">
            <legend>Runs on</legend>
            <div class="segments">
              <button type="button" aria-pressed={options.tty} onClick={() => set('tty', true)}>
                Terminal
              </button>
              <button type="button" aria-pressed={!options.tty} onClick={() => set('tty', false)}>
                Pipes
              </button>
            </div>
          </fieldset>
          <Field
            label="Name"
            placeholder="optional"
            value={options.name}
            onInput={(value) => set('name', value)}
          />
          <Field
            label="Directory"
            placeholder={workspace.directory ?? 'default'}
            value={options.cwd}
            onInput={(value) => set('cwd', value)}
          />
          <label>
            <span>Sandbox</span>
            <select
              value={options.sandbox}
              onChange={(event) => set('sandbox', event.currentTarget.value as Options['sandbox'])}
            >
              <option value="none">None</option>
              <option value="workspaceWrite">Writes in the directory only</option>
              <option value="readOnly">Reads only</option>
            </select>
          </label>
          <Field
            label="End after (minutes)"
            placeholder="never"
            value={options.minutes}
            onInput={(value) => set('minutes', value)}
          />
          <label class="wide">
            <span>Environment</span>
            <textarea
              class="mono"
              rows={2}
              placeholder="NAME=value, one per line"
              spellcheck={false}
              value={options.env}
              onInput={(event) => set('env', event.currentTarget.value)}
            />
          </label>
          {!options.tty && (
            <label class="check">
              <input
                type="checkbox"
                checked={options.stdin}
                onChange={(event) => set('stdin', event.currentTarget.checked)}
              />
              Keep stdin open
            </label>
          )}
          {client?.capabilities.processRecording && (
            <label class="check">
              <input
                type="checkbox"
                checked={options.record}
                onChange={(event) => set('record', event.currentTarget.checked)}
              />
              Record
            </label>
          )}
        </div>
      )}
      {error !== null && <ErrorNotice text={error} onClose={() => setError(null)} />}
    </form>
  );
}

function Field({
  label,
  placeholder,
  value,
  onInput,
}: {
  label: string;
  placeholder: string;
  value: string;
  onInput: (value: string) => void;
}): JSX.Element {
  return (
    <label>
      <span>{label}</span>
      <input
        placeholder={placeholder}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}

/** Throws an error for people when a field cannot be understood. */
function spawnOptions(
  { tty, name, cwd, env, minutes, sandbox, stdin, record }: Options,
  standardDirectory: string | null,
): SpawnOptions {
  const minuteCount = Number(minutes);
  if (minutes.trim() !== '' && !(minuteCount > 0)) throw new Error(`"${minutes}" is not a number of minutes`);
  const directory = cwd.trim() || standardDirectory;
  return {
    detached: true,
    tty,
    ...(name.trim() !== '' && { name: name.trim() }),
    ...(directory !== null && { cwd: directory }),
    ...(env.trim() !== '' && { env: environmentOf(env) }),
    ...(minutes.trim() !== '' && { limits: { wallMs: Math.round(minuteCount * 60_000) } }),
    ...(sandbox !== 'none' && { sandbox: { type: sandbox } }),
    ...(!tty && stdin && { pipeStdin: true }),
    ...(record && { record: true }),
  };
}

function environmentOf(text: string): Record<string, string> {
  const lines = text.split('\n').map((line) => line.trim());
  return Object.fromEntries(
    lines
      .filter((line) => line !== '')
      .map((line) => {
        const at = line.indexOf('=');
        if (at < 1) throw new Error(`"${line}" is not of the form NAME=value`);
        return [line.slice(0, at), line.slice(at + 1)];
      }),
  );
}
