import { expect, it } from 'vitest';
import type { Given } from './changes.cases.ts';
import { settled } from './person.ts';

const UNAVAILABLE = {
  error: { code: 'database_unavailable', message: 'Database unavailable.', request_id: 'req_1' },
};
const NOTHING = { data: [], next_page_token: '' };

/** What pages show when something is missing or fails. */
export function meetStates(given: () => Given): void {
  it('is told what failed, and can try again, when the service answers 503', async () => {
    const { page, open } = given().operator;
    const fails = /\/api\/v1\/(?!session|whoami)/;
    await page.route(fails, (route) => route.fulfill({ status: 503, json: UNAVAILABLE }));
    for (const path of ['/', '/usage', '/policies', '/health', '/keys']) {
      await open(path);
      await page.getByRole('alert').first().getByText('Database unavailable.').waitFor();
      await settled(page);
    }
    await page.unroute(fails);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('table', { name: 'Keys' }).waitFor();
  }, 90_000);

  it('is told what is missing where there is no data yet, and no proxy', async () => {
    const { operator } = given();
    const { page, open } = operator;
    const lists = /\/api\/v1\/(spend|requests|proxies|connectors|webhooks)(\?|$)/;
    await page.route(lists, (route) => route.fulfill({ json: NOTHING }));
    for (const [path, says] of [
      ['/usage', 'No usage in this range. Choose a longer range, or connect a client.'],
      ['/requests', 'No request matches. Widen the filters, or connect a client.'],
      ['/health', 'No proxy is connected: no request is served. Start a data plane.'],
      ['/connectors', 'No connector: no vendor can be reached. Add one with an account’s key.'],
      ['/webhooks', 'No webhook: no one is told when a budget is exhausted or a vendor is down.'],
    ] as const) {
      await open(path);
      await page.getByText(says).waitFor();
      await settled(page);
      expect(await operator.violations()).toEqual([]);
    }
    await page.unroute(lists);
    await open('/nowhere');
    await page.getByRole('heading', { level: 1, name: 'Not found' }).waitFor();
    await open('/requests/req_unknown');
    await page.getByRole('alert').waitFor();
  }, 90_000);

  it('signs in again where a session ended, and goes on there', async () => {
    const { operator, service } = given();
    const { page, context, open } = operator;
    await open('/policies');
    await page.getByRole('table', { name: 'Policies' }).waitFor();
    await context.clearCookies();
    await page.getByRole('link', { name: 'Connectors' }).click();
    await page.getByText('Your session ended.').waitFor();
    await page.getByLabel('Key').fill(service.operatorKey);
    await page.keyboard.press('Enter');
    await page.getByRole('table', { name: 'Connectors' }).waitFor();
    expect(operator.faults).toEqual([]);
  }, 60_000);

  it('reaches and closes everything by keyboard', async () => {
    const { page, open } = given().operator;
    await open('/policies');
    await page.getByRole('table', { name: 'Policies' }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('#main:focus').waitFor();
    const create = page.getByRole('button', { name: 'Create a policy' });
    await page.keyboard.press('Tab');
    await create.and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').waitFor();
    await page.locator('[role=dialog]:focus, [role=dialog] :focus').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    await create.and(page.locator(':focus')).waitFor();
  }, 60_000);
}
