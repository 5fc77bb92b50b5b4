import { createLogger, createMetrics } from '@weighbridge/runtime';
import { type AppDeps, buildApp } from './http/app.ts';

/** The document as it is committed in openapi.json. No route is called, so most dependencies are missing. */
export async function openApiDocument(): Promise<string> {
  const logger = createLogger('openapi');
  logger.level = 'silent';
  const deps = { logger, metrics: createMetrics(), notReady: () => undefined };
  const app = buildApp(deps as AppDeps & Parameters<typeof buildApp>[0]);
  try {
    await app.ready();
    return `${JSON.stringify(app.swagger(), null, 2)}\n`;
  } finally {
    await app.close();
  }
}
