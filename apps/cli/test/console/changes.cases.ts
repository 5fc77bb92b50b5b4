import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { manage, type Service } from '../mainJob.ts';
import { act, type Person } from './person.ts';

export interface Given {
  readonly operator: Person;
  readonly service: Service;
}

async function confirm(page: Page, of: string, action: string, answer: string): Promise<void> {
  await act(page, action, of);
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: answer, exact: true }).click();
  await dialog.waitFor({ state: 'hidden' });
}

/** An operator changes resources of each kind. */
export function changeResources(given: () => Given): void {
  it('creates a policy, is told at the field what is wrong, and never overwrites a change of someone else', async () => {
    const { operator, service } = given();
    const { page } = operator;
    const dialog = page.getByRole('dialog');
    const { body: spare } = await manage(service, 'POST', '/api/v1/policies', { body: { name: 'spare' } });
    const { body: cheap } = await manage(service, 'POST', '/api/v1/profiles', {
      body: { name: 'cheap', strategy: 'ordered', targets: [{ model: 'mock/echo' }] },
    });
    await operator.open('/policies');
    await page.getByRole('button', { name: 'Create a policy' }).click();
    await dialog.getByLabel('Name').fill('for the console');
    await dialog.getByLabel('Once the budget is used up: profile').selectOption(String(cheap.id));
    await dialog.getByLabel('Once the budget is used up: policy').selectOption(String(spare.id));
    await dialog.getByLabel('Budget in USD').fill('25.5');
    await dialog.getByLabel('Requests a minute').fill('0');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByRole('alert').getByText('requests_per_minute: must be >= 1.').waitFor();
    expect(await dialog.getByLabel('Requests a minute').getAttribute('aria-invalid')).toBe('true');
    expect(await operator.violations()).toEqual([]);
    await dialog.getByLabel('Requests a minute').fill('60');
    await dialog.getByRole('button', { name: 'Create' }).click();
    const row = page.getByRole('row', { name: /for the console/ });
    await row.getByText('$25.50 a month').waitFor();

    await act(page, 'Edit', 'for the console');
    await dialog.getByLabel('Requests a minute').fill('70');
    const { body: found } = await manage(
      service,
      'GET',
      '/api/v1/policies?name_contains=for%20the%20console',
    );
    const [{ id, on_exhausted } = { id: '', on_exhausted: null }] = found.data as {
      id: string;
      on_exhausted: unknown;
    }[];
    expect(on_exhausted).toEqual({ profile_id: cheap.id, policy_id: spare.id });
    await manage(service, 'PATCH', `/api/v1/policies/${id}`, { body: { max_parallel: 7 } });
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText(/Someone else changed this/).waitFor();
    await dialog.getByText('The last change is of operator').waitFor();
    expect(await operator.violations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Load what it is now' }).click();
    await expect.poll(() => dialog.getByLabel('Requests in parallel').inputValue()).toBe('7');
    await dialog.getByLabel('Requests a minute').fill('70');
    await dialog.getByLabel('Once the budget is used up: profile').selectOption('');
    await dialog.getByLabel('Once the budget is used up: policy').selectOption('');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await row.getByText('70 requests a minute, 7 in parallel').waitFor();
    const { body: saved } = await manage(service, 'GET', `/api/v1/policies/${id}`);
    expect(saved.on_exhausted).toBe(null);
    await confirm(page, 'for the console', 'Delete', 'Delete the policy');
    expect(operator.faults).toEqual([]);
  });

  it('forms a team, and gives a person a role', async () => {
    const { operator } = given();
    const { page } = operator;
    const dialog = page.getByRole('dialog');
    await operator.open('/teams');
    await page.getByRole('button', { name: 'Create a team' }).click();
    await dialog.getByLabel('Name').fill('engines');
    await dialog.getByLabel('Parent team').selectOption({ label: 'research' });
    await dialog.getByRole('button', { name: 'Create' }).click();
    const row = page.getByRole('row', { name: /engines/ });
    await act(page, 'Members', 'engines');
    await dialog.getByLabel('Principal').fill('grace');
    await dialog.getByRole('button', { name: 'Add' }).click();
    await dialog.getByRole('button', { name: 'Make a lead grace' }).click();
    await dialog.getByRole('button', { name: 'Make a member grace' }).waitFor();
    expect(await operator.violations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await confirm(page, 'engines', 'Freeze', 'Freeze the team');
    await row.getByText('frozen').waitFor();
    await page.getByRole('button', { name: 'Edit grace' }).click();
    await dialog.getByLabel('Role').selectOption('auditor');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('row', { name: /grace.*auditor.*engines.*lead/ }).waitFor();
    expect(operator.faults).toEqual([]);
  });

  it('creates a webhook whose secret is shown once, pauses it, and sees that it is not told', async () => {
    const { operator } = given();
    const { page } = operator;
    const dialog = page.getByRole('dialog');
    await operator.open('/webhooks');
    await page.getByRole('button', { name: 'Create a webhook' }).click();
    await dialog.getByLabel('Name').fill('on call');
    await dialog.getByLabel('Address').fill('http://10.0.0.1/hook');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByRole('alert').getByText('it is not https').waitFor();
    await dialog.getByLabel('Address').fill('https://hooks.example.com/hook');
    await dialog.getByRole('button', { name: 'Create' }).click();
    const secret = (await dialog.locator('code').textContent()) ?? '';
    expect(secret).toMatch(/^whsec_/);
    await dialog.getByRole('button', { name: 'Done' }).click();
    const row = page.getByRole('row', { name: /on call/ });
    await confirm(page, 'on call', 'Pause', 'Pause');
    await row.getByText('paused').waitFor();
    expect(await page.content()).not.toContain(secret);
    await act(page, 'Deliveries', 'on call');
    await dialog.getByText('Nothing was delivered yet.').waitFor();
    await page.keyboard.press('Escape');
    await confirm(page, 'on call', 'Delete', 'Delete the webhook');
    expect(operator.faults).toEqual([]);
  });

  it('orders connectors, sets prices, names models and asks which one would be taken', async () => {
    const { operator } = given();
    const { page } = operator;
    const dialog = page.getByRole('dialog');
    await operator.open('/connectors');
    await act(page, 'Edit', 'env-mock');
    await dialog.getByLabel('Weight').fill('3');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Prices env-mock' }).click();
    await dialog.getByLabel('Model').fill('mock/echo');
    await dialog.getByLabel('Input').fill('1.5');
    await dialog.getByLabel('Output').fill('2');
    await dialog.getByRole('button', { name: 'Set the price' }).click();
    await dialog.getByRole('row', { name: /mock\/echo.*\$1\.50.*\$2\.00/ }).waitFor();
    expect(await operator.violations()).toEqual([]);
    await dialog.getByRole('button', { name: 'End mock/echo' }).click();
    await dialog.getByText('No price was negotiated.').waitFor();

    await operator.open('/models');
    await page.getByRole('button', { name: 'Create an alias' }).click();
    await dialog.getByLabel('Name').fill('house-model');
    await dialog.getByLabel('Stands for').fill('mock/echo');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('row', { name: /house-model.*usable/ }).waitFor();

    await operator.open('/profiles');
    await page.getByRole('button', { name: 'Create a profile' }).click();
    await dialog.getByLabel('Name').fill('house');
    await dialog.getByLabel('Targets').fill('mock/echo');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('button', { name: 'Explain house' }).click();
    await dialog.getByRole('button', { name: 'Ask' }).click();
    await dialog.getByText('allowed', { exact: true }).waitFor();
    expect(await operator.violations()).toEqual([]);
    expect(operator.faults).toEqual([]);
  });
}
