import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { ask, manage } from '../mainJob.ts';
import type { Given } from './changes.cases.ts';
import { PATHS } from './paths.ts';
import { settled } from './person.ts';

const WIDTHS = [1_360, 1_280, 1_024];
const OWNER = 'bob.the.analyst@example.com';

/** Runs in the page: the tables that are wider than their boxes, and the page if it is wider than the window. */
const OVERFLOWING = `[
  ...[...document.querySelectorAll('table')]
    .filter(({ parentElement: box }) => box.scrollWidth > box.clientWidth)
    .map(({ caption }) => caption.textContent),
  ...(document.documentElement.scrollWidth > window.innerWidth ? ['the page'] : []),
]`;
const overflowing = async (page: Page): Promise<string[]> => await page.evaluate(OVERFLOWING);

/** Runs in the page: in how many lines it shows each host of the owner's address. */
const LINES_OF_HOSTS = `(() => {
  const lines = [];
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    if (texts.currentNode.textContent !== 'example.com') continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    lines.push(new Set([...range.getClientRects()].map(({ top }) => top)).size);
  }
  return lines;
})()`;
const linesOfHosts = async (page: Page): Promise<number[]> => await page.evaluate(LINES_OF_HOSTS);

const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();

/** Every table fits the usual widths of a window. */
export function fitTables(given: () => Given): void {
  it('sees every column of every table, also in a narrow window', async () => {
    const { operator, service } = given();
    const { page, open } = operator;
    const policy = await manage(service, 'POST', '/api/v1/policies', {
      body: {
        name: 'research assistants',
        limit_micro_usd: 12_345_678,
        counter_scope: 'key',
        requests_per_minute: 60,
        tokens_per_minute: 100_000,
        max_parallel: 4,
        allowed_models: ['openai/gpt-5*', 'anthropic/*', 'mock/*'],
      },
    });
    const policy_id = policy.body.id;
    const issued = await manage(service, 'POST', '/api/v1/keys', {
      body: { name: 'notebook', principal_id: OWNER, policy_id, expires_at: '2099-01-01T00:00:00Z' },
    });
    await ask(service, String(issued.body.key));
    const override = { limit_micro_usd: 20_000_000, reason: 'the launch', ends_at: inAnHour() };
    for (const [path, body] of [
      ['overrides', { ...override, policy_id, key_id: issued.body.id }],
      ['webhooks', { name: 'on call', url: 'https://hooks.example.com/services/0123456789' }],
      ['connectors', { name: 'the account of research', provider: 'openai', credential_ref: 'env:NOT_SET' }],
    ] as const) {
      const made = await manage(service, 'POST', `/api/v1/${path}`, { body });
      expect([path, made]).toMatchObject([path, { status: 201 }]);
    }
    const ofOwner = `/api/v1/requests?principal_id=${encodeURIComponent(OWNER)}`;
    const asked = async () => (await manage(service, 'GET', ofOwner)).body.data as { request_id: string }[];
    await expect.poll(asked).toMatchObject([{ key_name: 'notebook' }]);
    const [{ request_id: id } = { request_id: '' }] = await asked();
    const paths = [...PATHS.map(([path]) => path), '/usage?group=key&by=principal', `/requests/${id}`];
    for (const path of paths) {
      await open(path);
      await settled(page);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 860 });
        // Charts follow the window a moment later.
        await expect.poll(async () => [path, width, await overflowing(page)]).toEqual([path, width, []]);
        if (/requests|usage/.test(path)) {
          await page.getByRole('columnheader', { name: 'Cost' }).first().waitFor();
        }
        const lines = await linesOfHosts(page);
        expect([path, width, lines.filter((count) => count > 1)]).toEqual([path, width, []]);
        if (path === '/keys') expect(lines.length).toBeGreaterThan(0);
      }
      await page.setViewportSize({ width: 1_360, height: 860 });
    }
    await manage(service, 'DELETE', `/api/v1/keys/${issued.body.id}`);
    expect(operator.faults).toEqual([]);
  });
}
