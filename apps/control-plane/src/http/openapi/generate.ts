import { createLogger } from '@weighbridge/runtime';
import { type AppDeps, buildApp } from '../app.ts';

/** The document as it is committed, in openapi.json. Nothing is called, so nothing of what routes use need be there. */
export async function openApiDocument(): Promise<string> {
  const logger = createLogger('openapi');
  logger.level = 'silent';
  const app = buildApp({ logger, notReady: () => undefined } as AppDeps & Parameters<typeof buildApp>[0]);
  try {
    await app.ready();
    return `${JSON.stringify(app.swagger(), null, 2)}\n`;
  } finally {
    await app.close();
  }
}
