import type { JSX } from 'preact';

/** Strokes on a grid of 24, drawn for this console. */
const PATHS = {
  processes: 'M4 6h16M4 12h16M4 18h10',
  files: 'M3.5 7.5a2 2 0 0 1 2-2h4l2 2.5h7a2 2 0 0 1 2 2v7a2 2 0 0 1-2 2h-13a2 2 0 0 1-2-2z',
  recordings: 'M12 4.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z',
  machine: 'M4 5.5h16v5H4zM4 13.5h16v5H4zM7.5 8h.01M7.5 16h.01',
  terminal: 'M5 7.5 9.5 12 5 16.5M12 16.5h7',
  search: 'M10.5 5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM15 15l4.5 4.5',
  close: 'M6.5 6.5l11 11M17.5 6.5l-11 11',
  stop: 'M7 7h10v10H7z',
  play: 'M8 5.5v13l10-6.5z',
  copy: 'M8.5 8.5h10v11h-10zM5.5 15.5v-11h10',
  eye: 'M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 9.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z',
  keyboard: 'M3.5 7h17v10h-17zM7 10.5h.01M10.3 10.5h.01M13.7 10.5h.01M17 10.5h.01M8 14h8',
  upload: 'M12 15.5v-10M8 9l4-4 4 4M5 18.5h14',
  download: 'M12 5v10M8 11.5l4 4 4-4M5 18.5h14',
  folder: 'M3.5 7.5a2 2 0 0 1 2-2h4l2 2.5h7a2 2 0 0 1 2 2v7a2 2 0 0 1-2 2h-13a2 2 0 0 1-2-2z',
  file: 'M6.5 3.5h7l4 4v13h-11zM13 3.5v4.5h4.5',
  link: 'M10 14a3.5 3.5 0 0 0 5 0l3-3a3.5 3.5 0 0 0-5-5l-1 1M14 10a3.5 3.5 0 0 0-5 0l-3 3a3.5 3.5 0 0 0 5 5l1-1',
  chevron: 'M9 6l6 6-6 6',
  down: 'M6 9l6 6 6-6',
  back: 'M15 6l-6 6 6 6',
  plus: 'M12 5.5v13M5.5 12h13',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M18.4 5.6 17 7M7 17l-1.4 1.4',
  moon: 'M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z',
  system: 'M4 5.5h16v10H4zM9 19.5h6M12 15.5v4',
  signOut: 'M10 5H5.5v14H10M14 8l4 4-4 4M18 12H9.5',
  trash: 'M5 7h14M9.5 7V4.5h5V7M7 7l.8 12.5h8.4L17 7',
  edit: 'M5 19l.8-3.6L15.5 5.7a1.8 1.8 0 0 1 2.6 0l.2.2a1.8 1.8 0 0 1 0 2.6L8.6 18.2z',
  refresh: 'M19 12a7 7 0 1 1-2-4.9M19 4.5v4h-4',
  help: 'M9.5 9.5a2.5 2.5 0 1 1 3.4 2.3c-.6.3-.9.8-.9 1.7M12 17h.01',
  sliders: 'M5 8h8M17 8h2M5 16h2M11 16h8M15 6v4M9 14v4',
  user: 'M12 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM5.5 19.5c.8-3.2 3.4-5 6.5-5s5.7 1.8 6.5 5',
  people:
    'M9 6a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM3.5 18.5c.6-2.8 2.8-4.3 5.5-4.3s4.9 1.5 5.5 4.3M15.5 6.4a3 3 0 0 1 0 5.2M17 14.6c1.8.5 3 1.8 3.5 3.9',
  warning: 'M12 4.5 3.5 19h17zM12 10v4M12 16.8h.01',
  check: 'M5.5 12.5l4 4 9-9',
  accessibility: 'M12 4.2h.01M5 8.5c4.5 1.4 9.5 1.4 14 0M12 9.5v4.5M9 20l3-6 3 6',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }): JSX.Element {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
