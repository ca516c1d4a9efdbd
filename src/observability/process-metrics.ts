import { readdirSync } from 'node:fs';
import type { Metrics } from './metrics.ts';
import { VERSION } from './version.ts';

/** Adds what every service reports about itself: its version, memory, descriptors and start time. */
export function addProcessMetrics(metrics: Metrics, component: 'server' | 'relay'): void {
  const one = (value: number) => [{ value }];
  metrics.gauge('exec_server_build_info', 'Always 1. The labels have the version.', () => [
    { labels: { component, version: VERSION, node: process.versions.node }, value: 1 },
  ]);
  metrics.gauge('process_resident_memory_bytes', 'Memory of the service itself, without programs.', () =>
    one(process.memoryUsage.rss()),
  );
  metrics.gauge('process_open_fds', 'Open descriptors of the service.', () => openDescriptors());
  metrics.gauge('process_start_time_seconds', 'When the service was started, in Unix time.', () =>
    one(Math.round(performance.timeOrigin) / 1_000),
  );
}

/** Empty where the system does not report it. */
function openDescriptors(): { value: number }[] {
  try {
    return [{ value: readdirSync('/proc/self/fd').length }];
  } catch {
    return [];
  }
}
