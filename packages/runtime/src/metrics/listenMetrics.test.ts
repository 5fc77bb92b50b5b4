import { afterEach, expect, it } from 'vitest';
import { createLogger } from '../logging/logger.ts';
import { listenMetrics } from './listenMetrics.ts';
import { createMetrics } from './metrics.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function listen(address: { host: string; port: number } | undefined): Promise<string | undefined> {
  const logger = createLogger('test');
  logger.level = 'silent';
  let url: string | undefined;
  logger.info = ((fields: { url: string }) => {
    url = fields.url;
  }) as typeof logger.info;
  const metrics = createMetrics();
  metrics.gauge('weighbridge_test', 'A value.', () => 7);
  await listenMetrics(address, metrics, { logger, onShutdown: (_, step) => void closing.push(step) });
  return url;
}

const codeOf = async (response: Response) =>
  ((await response.json()) as { error: { code: string } }).error.code;

it('serves metrics on its own port, and nothing else', async () => {
  const url = await listen({ host: '127.0.0.1', port: 0 });
  const answer = await fetch(`${url}?x=1`);
  expect([answer.status, answer.headers.get('content-type')]).toEqual([
    200,
    expect.stringContaining('text/plain'),
  ]);
  expect(await answer.text()).toContain('weighbridge_test 7');
  for (const path of ['', '/x', '/../v1/models', '/%2e']) {
    const other = await fetch(`${url}${path || '/..'}`);
    expect([other.status, await codeOf(other)], path).toEqual([404, 'route_not_found']);
  }
  const post = await fetch(url ?? '', { method: 'POST', body: 'x' });
  expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  expect(await codeOf(post)).toBe('method_not_allowed');
});

it('listens nowhere without an address', async () => {
  expect(await listen(undefined)).toBeUndefined();
  expect(closing).toEqual([]);
});

it('names its setting if the port is in use', async () => {
  const { port } = new URL((await listen({ host: '127.0.0.1', port: 0 })) ?? '');
  await expect(listen({ host: '127.0.0.1', port: Number(port) })).rejects.toThrow(/METRICS_PORT/);
});
