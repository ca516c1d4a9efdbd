import type { MetricsListener } from '../../listener/metrics-listener.ts';
import type { Logger } from '../../observability/log.ts';
import { openMetricsToken } from '../auth/open-gate.ts';
import type { ExecServerConfig } from '../config/config.ts';
import type { ServerMetrics } from '../records/server-metrics.ts';

/** Creates the listener for metrics alone; null when none is configured. Throws StartError for a bad address or token file. */
export async function createMetricsListener(
  config: ExecServerConfig,
  metrics: ServerMetrics | null,
  log: Logger,
  isReady: () => boolean,
): Promise<MetricsListener | null> {
  if (config.metricsListen === '' || metrics === null) return null;
  const { MetricsListener, parseMetricsAddress } = await import('../../listener/metrics-listener.ts');
  const address = parseMetricsAddress(config.metricsListen);
  const token = await openMetricsToken(config);
  return new MetricsListener({ address, token, log, isReady, scrape: () => metrics.scrape() });
}
