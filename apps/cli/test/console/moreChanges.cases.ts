import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { manage } from '../mainJob.ts';
import type { Given } from './changes.cases.ts';
import { act, wholeAnswer } from './person.ts';

const dialogOf = (page: Page) => page.getByRole('dialog');

/** Opens a dialog by its button, or by what one can do with a row, fills it and submits it. */
async function change(
  page: Page,
  open: string | RegExp | readonly [action: string, of: string],
  texts: Readonly<Record<string, string>>,
  submit: string,
): Promise<void> {
  if (typeof open === 'string' || open instanceof RegExp) {
    await page.getByRole('button', { name: open }).first().click();
  } else {
    await act(page, ...open);
  }
  const dialog = dialogOf(page);
  for (const [label, text] of Object.entries(texts)) await dialog.getByLabel(label).fill(text);
  await dialog.getByRole('button', { name: submit, exact: true }).click();
}

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

/** Changes that are sent to a service which has nothing of the kind: the page, what it lists, and what it then sends. */
const RARE = [
  {
    page: '/health',
    list: /\/api\/v1\/quarantine\?/,
    row: { id: '7', kind: 'event', reason: 'odd', principal_id: null, received_at: '2030-01-01T00:00:00Z' },
    changes: [
      ['Release 7', {}, 'Release', '/api/v1/quarantine/7/release', null],
      ['Discard 7', { Why: 'a copy' }, 'Discard', '/api/v1/quarantine/7/discard', { note: 'a copy' }],
    ],
  },
  {
    page: '/models',
    list: /\/api\/v1\/catalog\/feed\/changes/,
    row: {
      id: 'fch_1',
      model: 'mock/dear',
      held_because: 'it falls by more than 90 %',
      price_before: null,
      price_after: {
        input_price: { currency_code: 'USD', units: 1, nanos: 0 },
        output_price: { currency_code: 'USD', units: 2, nanos: 0 },
      },
    },
    changes: [
      ['Apply mock/dear', {}, 'Apply', '/api/v1/catalog/feed/changes/fch_1/approve', null],
      ['Reject mock/dear', {}, 'Reject', '/api/v1/catalog/feed/changes/fch_1/reject', null],
    ],
  },
] as const;

export function changeMore(given: () => Given): void {
  it('gives a counter another limit for a while, changes it, and ends it', async () => {
    const { operator, service } = given();
    const { page } = operator;
    const { body: policy } = await manage(service, 'POST', '/api/v1/policies', {
      body: { name: 'shared by all', limit_micro_usd: 1_000_000, counter_scope: 'policy' },
    });
    await operator.open('/overrides');
    await page.getByRole('button', { name: 'Create an override' }).click();
    const dialog = dialogOf(page);
    await dialog.getByLabel('Policy').selectOption(String(policy.id));
    await dialog.getByLabel('Limit in USD').fill('5.5');
    await dialog.getByLabel('Reason').fill('the launch');
    await dialog.getByLabel('Ends').fill(inDays(-2));
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByRole('alert').waitFor();
    expect(await operator.violations()).toEqual([]);
    await dialog.getByLabel('Ends').fill(inDays(3));
    await dialog.getByRole('button', { name: 'Create' }).click();
    const row = page.getByRole('row', { name: /shared by all/ });
    await row.getByText('$5.50').waitFor();
    await row.getByText('active').waitFor();
    await change(page, /^Edit/, { 'Limit in USD': '7' }, 'Save');
    await row.getByText('$7.00').waitFor();
    await change(page, /^End/, {}, 'End the override');
    await row.getByText('ended').waitFor();
    expect(await row.getByRole('button').count()).toBe(0);
    expect(operator.faults).toEqual([]);
  });

  it('issues a key with a budget of its own, below that of a policy, and sees it in the list', async () => {
    const { operator, service } = given();
    const { page } = operator;
    const dialog = dialogOf(page);
    await operator.open('/keys');
    await page.getByRole('button', { name: 'Issue a key' }).click();
    await dialog.getByLabel('Name').fill('of one app');
    await dialog.getByLabel('Budget in USD').fill('12.5');
    await dialog.getByLabel('For each').selectOption('week');
    await dialog.getByLabel('Policy').selectOption({ label: 'default' });
    await dialog.getByLabel('Expires').fill(inDays(-2));
    expect(await operator.violations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Issue', exact: true }).click();
    await dialog.getByRole('alert').getByText('expires_at must be in the future').waitFor();
    const policies = async () =>
      (await manage(service, 'GET', '/api/v1/policies?name_contains=of%20one%20app')).body.data;
    // Without the key, its policy has no use.
    expect(await policies()).toEqual([]);
    await dialog.getByLabel('Expires').fill('');
    await dialog.getByRole('button', { name: 'Issue', exact: true }).click();
    const key = (await dialog.locator('code').textContent()) ?? '';
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('row', { name: /of one app.*\$12\.50 a week/ }).waitFor();
    expect(await policies()).toMatchObject([
      { limit_micro_usd: 12_500_000, window: 'week', parent_policy_id: expect.stringMatching(/^pol_/) },
    ]);
    const { body: usage } = await manage(service, 'GET', '/api/v1/usage', { key });
    expect(usage).toMatchObject({ limit_micro_usd: 12_500_000, pooled: true });
    expect(operator.faults).toEqual([]);
  });

  it('rotates a key, and sees what was spent under its budget', async () => {
    const { operator } = given();
    const { page } = operator;
    const dialog = dialogOf(page);
    await operator.open('/keys');
    await change(page, 'Issue a key', { Name: 'to rotate' }, 'Issue');
    const before = await dialog.locator('code').textContent();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await change(page, ['Rotate', 'to rotate'], { 'Hours that the old': '0' }, 'Rotate');
    await expect.poll(() => dialog.locator('code').textContent()).toMatch(/^sk-svc-/);
    expect(await dialog.locator('code').textContent()).not.toBe(before);
    await dialog.getByRole('button', { name: 'Done' }).click();
    await act(page, 'Spend', 'to rotate');
    await dialog.getByText('Left before a request is refused').waitFor();
    expect(await operator.violations()).toEqual([]);
    expect(operator.faults).toEqual([]);
  });

  it('adds, disables and deletes a connector, and sees that it can’t be used', async () => {
    const { operator } = given();
    const { page } = operator;
    await operator.open('/connectors');
    const texts = { Name: 'second account', Provider: 'openai', 'Where the credential is': 'env:NOT_SET' };
    await page.getByRole('button', { name: 'Add a connector' }).click();
    await dialogOf(page).getByText('env:NAME or file:/path of the control plane.').waitFor();
    await dialogOf(page).getByRole('button', { name: 'Cancel' }).click();
    await change(page, 'Add a connector', texts, 'Create');
    const row = page.getByRole('row', { name: /second account/ });
    await row.getByText('not usable').waitFor();
    await change(page, ['Disable', 'second account'], {}, 'Disable');
    await row.getByText('disabled').waitFor();
    await change(page, ['Enable', 'second account'], {}, 'Enable');
    await row.getByText('not usable').waitFor();
    await operator.open('/');
    await page.getByRole('link', { name: /The connector second account can't be used/ }).click();
    await change(page, ['Delete', 'second account'], {}, 'Delete the connector');
    await row.waitFor({ state: 'hidden' });
    expect(operator.faults).toEqual([]);
  });

  it('sets and ends a price, adds a principal, and corrects a cost', async () => {
    const { operator } = given();
    const { page } = operator;
    await operator.open('/models');
    await change(page, ['Set price', 'mock/echo'], { Input: '3', Output: '4' }, 'Set the price');
    await page.getByRole('row', { name: /mock\/echo.*\$3\.00.*\$4\.00.*operator/ }).waitFor();
    await act(page, 'Versions', 'mock/echo');
    await dialogOf(page)
      .getByRole('row', { name: /any.*\$3\.00.*\$4\.00.*operator/ })
      .waitFor();
    await page.keyboard.press('Escape');
    await dialogOf(page).waitFor({ state: 'hidden' });
    await change(page, ['End price', 'mock/echo'], {}, 'End the price');
    await dialogOf(page).waitFor({ state: 'hidden' });

    await operator.open('/teams');
    await change(page, 'Add a principal', { Id: 'barbara' }, 'Create');
    await page.getByRole('row', { name: /barbara.*active/ }).waitFor();

    await operator.open('/requests');
    await page.getByRole('row').nth(1).getByRole('link').click();
    await change(page, 'Correct the cost', { 'Amount in USD': '-0.000001', Why: 'billed less' }, 'Correct');
    await page.getByRole('row', { name: /−\$0\.000001.*billed less/ }).waitFor();
    expect(await operator.violations()).toEqual([]);
    expect(operator.faults).toEqual([]);
  });

  it('decides on quarantined usage and held prices', async () => {
    const { operator } = given();
    const { page } = operator;
    await page.route(/\/api\/v1\/catalog\/feed$/, async (route) => {
      const response = await wholeAnswer(route);
      await route.fulfill({ response, json: { ...(await response.json()), held_changes: 1 } });
    });
    for (const { page: path, list, row, changes } of RARE) {
      await page.route(list, (route) => route.fulfill({ json: { data: [row], next_page_token: '' } }));
      for (const [open, texts, submit, sent, body] of changes) {
        await operator.open(path);
        await page.route(`**${sent}`, (route) => route.fulfill({ json: {} }));
        const [request] = await Promise.all([
          page.waitForRequest(`**${sent}`),
          change(page, open, texts, submit),
        ]);
        expect([request.method(), request.postDataJSON()]).toEqual(['POST', body]);
        await dialogOf(page).waitFor({ state: 'hidden' });
      }
    }
    await page.unrouteAll();
    expect(operator.faults).toEqual([]);
  });
}
