import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { manage, sdk } from '../mainJob.ts';
import { act, type Person } from './person.ts';
import { useConsole } from './useConsole.ts';

/** A folder for screenshots; unset: none are taken. */
const { SCREENSHOTS } = process.env;
const DAY_MS = 86_400_000;

const started = useConsole();
let operator: Person;
beforeAll(async () => {
  operator = await started().person();
  await operator.signIn(started().service.operatorKey);
});
afterAll(() => operator?.context.close());

async function picture(name: string): Promise<void> {
  if (!SCREENSHOTS) return;
  await mkdir(SCREENSHOTS, { recursive: true });
  await operator.page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
}

it("an operator gives a policy a limit for each customer, sees who spent most, and freezes one's", async () => {
  const { service, issueKey } = started();
  const { page } = operator;
  const dialog = page.getByRole('dialog');
  const { body: policy } = await manage(service, 'POST', '/api/v1/policies', { body: { name: 'a shop' } });
  await operator.open('/policies');
  await act(page, 'Limits', 'a shop');
  await page.getByRole('heading', { level: 1, name: 'Limits of a shop' }).waitFor();
  await page.getByText('No further limit').waitFor();

  // An error of the service stands at the field that it is about.
  await page.getByRole('button', { name: 'Add a limit' }).click();
  await dialog.getByLabel('Name').fill('each customer');
  await dialog.getByLabel('Budget in USD', { exact: true }).fill('5');
  await dialog.getByLabel('Counted for each').fill('customer');
  await dialog.getByRole('button', { name: 'Add' }).click();
  await dialog.getByRole('alert').getByText('counter_scope must be one of').waitFor();
  expect(await dialog.getByLabel('Counted for each').getAttribute('aria-invalid')).toBe('true');
  await dialog.getByLabel('Counted for each').fill('user');
  await dialog.getByLabel('For each', { exact: true }).selectOption('day');
  expect(await operator.violations()).toEqual([]);
  await picture('limits-add');
  await dialog.getByRole('button', { name: 'Add' }).click();
  await page.getByRole('row', { name: /^each customer.*\$5.00 a day.*user/ }).waitFor();

  const key = await issueKey({ name: 'shop', policy_id: policy.id });
  const askFor = async (user: string, words = 1) => {
    const messages = [{ role: 'user' as const, content: 'What does it weigh? '.repeat(words) }];
    return await sdk(service, key).chat.completions.create(
      { model: 'mock/echo', messages },
      { headers: { 'x-svc-user': user } },
    );
  };
  await askFor('ann');
  await askFor('bob@example.com', 50);
  const { body: saved } = await manage(service, 'GET', `/api/v1/policies/${policy.id}`);
  const [limit] = saved.limits as { id: string }[];
  const path = `/api/v1/policies/${policy.id}/counters?limit_id=${limit?.id}`;
  await expect
    .poll(async () =>
      ((await manage(service, 'GET', path)).body.data as { spent_micro_usd: number }[]).filter(
        (one) => one.spent_micro_usd > 0,
      ),
    )
    .toHaveLength(2);

  await act(page, 'Spend', 'each customer');
  const spend = page.getByRole('table', { name: 'Spend of each customer' });
  await spend.getByRole('row', { name: /^bob@example.com/ }).waitFor();
  expect(await spend.locator('tbody tr td:first-child').allTextContents()).toEqual([
    'bob@example.com',
    'ann',
  ]);
  await page.getByRole('button', { name: 'Spent', exact: true }).click();
  await expect
    .poll(() => spend.locator('tbody tr td:first-child').allTextContents())
    .toEqual(['ann', 'bob@example.com']);
  expect(new URL(page.url()).searchParams.get('sort')).toBe('spent');
  expect(await operator.violations()).toEqual([]);

  await act(page, 'Freeze', 'ann');
  await dialog.getByLabel('Ends').fill(new Date(Date.now() + 2 * DAY_MS).toISOString().slice(0, 10));
  await dialog.getByLabel('Reason').fill('abuse');
  expect(await operator.violations()).toEqual([]);
  await dialog.getByRole('button', { name: 'Save' }).click();
  await spend.getByRole('row', { name: /^ann.*frozen.*abuse/ }).waitFor();
  expect(await operator.violations()).toEqual([]);
  await picture('limits-frozen');
  // What the proxy was granted before is given back, or spent.
  await expect
    .poll(() =>
      askFor('ann').then(
        () => undefined,
        ({ code }: { code: unknown }) => code,
      ),
    )
    .toBe('budget_exhausted');
  await askFor('bob@example.com');

  await page.getByLabel('Value').fill('ann');
  await page.getByLabel('Value').press('Enter');
  await expect.poll(() => spend.locator('tbody tr').count()).toBe(1);
  await act(page, 'End override', 'ann');
  await dialog.getByRole('button', { name: 'End the override' }).click();
  await dialog.waitFor({ state: 'hidden' });
  await expect.poll(() => spend.getByText('frozen').count()).toBe(0);
  await operator.open('/overrides');
  await page.getByRole('row', { name: /a shop.*each customer.*ann.*ended/ }).waitFor();
  expect(operator.faults).toEqual([]);
});

it('an operator edits and deletes limits, and never overwrites a change of someone else', async () => {
  const { service } = started();
  const { page } = operator;
  const dialog = page.getByRole('dialog');
  const limits = [
    { name: 'large models', models: ['mock/*'], counter_scope: 'policy', limit_micro_usd: 1_000_000 },
    { name: 'each session', counter_scope: 'session', limit_micro_usd: 2_000_000, window: 'hour' },
  ];
  const { body: policy } = await manage(service, 'POST', '/api/v1/policies', {
    body: { name: 'edited', limits },
  });
  await operator.open(`/policies/${policy.id}`);
  await act(page, 'Edit', 'large models');
  await dialog.getByLabel('Budget in USD', { exact: true }).fill('3');
  await manage(service, 'PATCH', `/api/v1/policies/${policy.id}`, {
    body: { limits: [{ ...limits[0], limit_micro_usd: 1_500_000 }, limits[1]] },
  });
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.getByText(/Someone else changed this/).waitFor();
  await dialog.getByText(/1\s*is now\s*1\.5/).waitFor();
  await dialog.getByRole('button', { name: 'Load what it is now' }).click();
  await expect.poll(() => dialog.getByLabel('Budget in USD', { exact: true }).inputValue()).toBe('1.5');
  await dialog.getByLabel('Name').fill('dear models');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('row', { name: /^dear models.*\$1.50 a month.*policy.*mock\/\*/ }).waitFor();
  await act(page, 'Delete', 'each session');
  await dialog.getByRole('button', { name: 'Delete the limit' }).click();
  await dialog.waitFor({ state: 'hidden' });
  await expect.poll(() => page.getByRole('row', { name: /^each session/ }).count()).toBe(0);
  const { body: saved } = await manage(service, 'GET', `/api/v1/policies/${policy.id}`);
  expect(saved.limits).toMatchObject([{ name: 'dear models', limit_micro_usd: 1_500_000 }]);
  await operator.open(`/audit?resource_id=${policy.id}`);
  await page.getByText('limits › removed: ["each session"]').waitFor();
  await page.getByText('limits › changed › dear models › name: large models → dear models').waitFor();
  await picture('limits-audit');
  expect(operator.faults).toEqual([]);
});
