import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Locator } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mainJob, manage, type Service } from '../mainJob.ts';
import type { RunningProcess } from '../processes.ts';
import { newDataDir, removeDataDir, startUp } from '../startUp.ts';
import { launchChromium } from './chromium.ts';
import { newPerson, type Person, settled } from './person.ts';

/** A folder for screenshots of all pages; unset: none are taken. */
const SCREENSHOTS = process.env.CONSOLE_SCREENSHOTS;
/** What the API lets a name contain; `visible` in the console's text.ts shows what it doesn't. */
const HOSTILE = `<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}}`;
const PATHS = [
  ['/', 'Overview'],
  ['/usage', 'Usage'],
  ['/requests', 'Requests'],
  ['/keys', 'Keys'],
  ['/teams', 'Principals & teams'],
  ['/policies', 'Policies'],
  ['/models', 'Models & prices'],
  ['/connectors', 'Connectors'],
  ['/profiles', 'Profiles & evidence'],
  ['/webhooks', 'Alerts & webhooks'],
  ['/health', 'Health'],
  ['/audit', 'Audit'],
  ['/connect', 'Connect a client'],
] as const;

let dataDir: string;
let service: Service;
let running: RunningProcess;
let browser: Browser;
beforeAll(async () => {
  dataDir = await newDataDir('weighbridge-console-');
  [{ process: running, service }, browser] = await Promise.all([startUp(dataDir), launchChromium()]);
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await running?.stop();
  await removeDataDir(dataDir);
});

const person = (scheme?: 'light' | 'dark') => newPerson(browser, service.managementUrl, scheme);

async function issueKey(fields: Record<string, unknown>): Promise<string> {
  const { status, body } = await manage(service, 'POST', '/api/v1/keys', { body: fields });
  expect([status, body]).toEqual([201, expect.anything()]);
  return body.key as string;
}

describe('an operator', () => {
  let operator: Person;
  beforeAll(async () => {
    await mainJob(service, 'mock/echo');
    await manage(service, 'POST', '/api/v1/teams', { body: { name: 'research' } });
    operator = await person();
    await operator.signIn(service.operatorKey);
  }, 120_000);
  afterAll(() => operator?.context.close());

  it('finds every page in the navigation, each with one heading, a title and nothing that bars anyone', async () => {
    const { page } = operator;
    for (const [path, title] of PATHS) {
      await page
        .getByRole('navigation', { name: 'Pages' })
        .getByRole('link', { name: title, exact: true })
        .click();
      await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
      await settled(page);
      expect(new URL(page.url()).pathname).toBe(`/console${path}`);
      expect(await page.locator('h1').count()).toBe(1);
      expect(await page.locator('nav[aria-label=Pages]').count()).toBe(1);
      expect(await page.title()).toBe(`${title} · Weighbridge`);
      expect([path, await page.getByRole('alert').allTextContents()]).toEqual([path, []]);
      expect(await operator.violations()).toEqual([]);
      if (SCREENSHOTS) {
        await mkdir(SCREENSHOTS, { recursive: true });
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          const name = `${path.slice(1) || 'overview'}-${colorScheme}.png`;
          await page.screenshot({ path: join(SCREENSHOTS, name), fullPage: true });
        }
        await page.emulateMedia({ colorScheme: 'light' });
      }
    }
    expect(operator.faults).toEqual([]);
  }, 120_000);

  it('issues a key whose secret is shown once and works, and revokes it', async () => {
    const { page } = operator;
    await operator.open('/keys');
    await page.getByRole('button', { name: 'Issue a key' }).click();
    await page.getByLabel('Name', { exact: false }).last().fill('from the console');
    await page.getByRole('button', { name: 'Issue', exact: true }).click();
    const dialog = page.getByRole('dialog');
    const secret = (await dialog.locator('code').textContent()) ?? '';
    expect(secret).toMatch(/^sk-svc-/);
    expect(await operator.violations()).toEqual([]);
    const use = async () =>
      await fetch(`${service.managementUrl}/api/v1/whoami`, {
        headers: { authorization: `Bearer ${secret}` },
      });
    expect((await use()).status).toBe(200);
    await dialog.getByRole('button', { name: 'Done' }).click();
    const row = page.getByRole('row', { name: /from the console/ });
    await row.waitFor();
    expect(await page.content()).not.toContain(secret);

    await row.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke the key' }).click();
    await row.getByText('revoked').waitFor();
    expect((await use()).status).toBe(401);
    expect(operator.faults).toEqual([]);
  }, 60_000);

  it('creates a policy, is told at the field what is wrong, and never overwrites a change of someone else', async () => {
    const { page } = operator;
    const dialog = page.getByRole('dialog');
    await operator.open('/policies');
    await page.getByRole('button', { name: 'Create a policy' }).click();
    await dialog.getByLabel('Name').fill('for the console');
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

    await row.getByRole('button', { name: 'Edit' }).click();
    await dialog.getByLabel('Requests a minute').fill('70');
    const { body: found } = await manage(
      service,
      'GET',
      '/api/v1/policies?name_contains=for%20the%20console',
    );
    const [{ id } = { id: '' }] = found.data as { id: string }[];
    await manage(service, 'PATCH', `/api/v1/policies/${id}`, { body: { max_parallel: 7 } });
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText(/Someone else changed this/).waitFor();
    await dialog.getByText('The last change is of operator').waitFor();
    expect(await operator.violations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Load what it is now' }).click();
    await expect.poll(() => dialog.getByLabel('Requests in parallel').inputValue()).toBe('7');
    await dialog.getByLabel('Requests a minute').fill('70');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await row.getByText('70 requests a minute, 7 in parallel').waitFor();
    await confirm(row, 'Delete', 'Delete the policy');
    expect(operator.faults).toEqual([]);
  }, 60_000);

  it('forms a team, and gives a person a role', async () => {
    const { page } = operator;
    const dialog = page.getByRole('dialog');
    await operator.open('/teams');
    await page.getByRole('button', { name: 'Create a team' }).click();
    await dialog.getByLabel('Name').fill('engines');
    await dialog.getByLabel('Below').selectOption({ label: 'research' });
    await dialog.getByRole('button', { name: 'Create' }).click();
    const row = page.getByRole('row', { name: /engines/ });
    await row.getByRole('button', { name: 'Members' }).click();
    await dialog.getByLabel('Principal').fill('grace');
    await dialog.getByRole('button', { name: 'Add' }).click();
    await dialog.getByRole('button', { name: 'Make a lead grace' }).click();
    await dialog.getByRole('button', { name: 'Make a member grace' }).waitFor();
    expect(await operator.violations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await confirm(row, 'Freeze', 'Freeze the team');
    await row.getByText('frozen').waitFor();
    await page.getByRole('button', { name: 'Edit grace' }).click();
    await dialog.getByLabel('Role').selectOption('auditor');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('row', { name: /grace.*auditor.*engines.*lead/ }).waitFor();
    expect(operator.faults).toEqual([]);
  }, 60_000);

  it('creates a webhook whose secret is shown once, pauses it, and sees that it is not told', async () => {
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
    await confirm(row, 'Pause', 'Pause');
    await row.getByText('paused').waitFor();
    expect(await page.content()).not.toContain(secret);
    await row.getByRole('button', { name: 'Deliveries' }).click();
    await dialog.getByText('Nothing was delivered yet.').waitFor();
    await page.keyboard.press('Escape');
    await confirm(row, 'Delete', 'Delete the webhook');
    expect(operator.faults).toEqual([]);
  }, 60_000);

  it('orders connectors, sets prices, names models and asks which one would be taken', async () => {
    const { page } = operator;
    const dialog = page.getByRole('dialog');
    await operator.open('/connectors');
    await page.getByRole('button', { name: 'Edit env-mock' }).click();
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
  }, 90_000);

  it('sees what a request cost, and finds it by its address', async () => {
    const { page } = operator;
    await operator.open('/requests');
    await page.getByRole('row').nth(1).getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: /^Request req_/ }).waitFor();
    await page.reload();
    await page.getByRole('table', { name: 'Attempts' }).waitFor();
    expect(await page.getByText('mock/echo').count()).toBeGreaterThan(0);
    expect(await operator.violations()).toEqual([]);
    expect(operator.faults).toEqual([]);
  }, 60_000);

  it('draws spend, sorts it, goes into a group, and saves what it shows', async () => {
    const { page } = operator;
    await operator.open('/usage?group=model&range=7');
    await page.getByRole('img', { name: /^Cost by model, each day/ }).waitFor();
    await page.getByRole('button', { name: 'Requests', exact: true }).click();
    await page.locator('th[aria-sort=descending]').getByText('Requests').waitFor();
    expect(new URL(page.url()).search).toContain('sort=-requests');
    await page.getByRole('button', { name: 'mock/echo' }).click();
    await page.getByRole('button', { name: 'Model: mock/echo ×' }).waitFor();
    await page.getByRole('cell', { name: 'mock/echo' }).waitFor();
    expect(await operator.violations()).toEqual([]);
    for (const [name, first] of [
      ['Save as CSV', 'bucket_start,model,'],
      ['Save as FOCUS', 'BilledCost,'],
    ] as const) {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name }).click(),
      ]);
      const text = await readFile(await download.path(), 'utf8');
      expect(text.slice(0, first.length)).toBe(first);
    }
    expect(operator.faults).toEqual([]);
  }, 60_000);

  it('reads names as text, whatever they contain', async () => {
    await issueKey({ name: HOSTILE });
    const { page } = operator;
    await operator.open(`/keys?name_contains=${encodeURIComponent('onerror')}`);
    await page.getByRole('row', { name: HOSTILE }).waitFor();
    expect(await page.locator('td img, td script').count()).toBe(0);
    expect(operator.faults).toEqual([]);
  }, 60_000);

  it('is told what failed, and can try again, when the service answers 503', async () => {
    const { page } = operator;
    const body = {
      error: { code: 'database_unavailable', message: 'Database unavailable.', request_id: 'req_1' },
    };
    await page.route('**/api/v1/keys*', (route) => route.fulfill({ status: 503, json: body }));
    await operator.open('/keys');
    await page.getByRole('alert').getByText('Database unavailable.').waitFor();
    await page.unroute('**/api/v1/keys*');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('table', { name: 'Keys' }).waitFor();
  }, 60_000);

  it('leaves with everything: the session ends wherever its cookie was copied', async () => {
    const { page, context } = await person();
    const other = await person();
    await newSession(page);
    const cookies = await context.cookies();
    await other.context.addCookies(cookies);
    await other.open('/keys');
    await other.page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { level: 1, name: 'Sign in to Weighbridge' }).waitFor();
    await other.page.reload();
    await other.page.getByRole('heading', { level: 1, name: 'Sign in to Weighbridge' }).waitFor();
    expect(await other.violations()).toEqual([]);
    await Promise.all([context.close(), other.context.close()]);
  }, 60_000);

  async function confirm(row: Locator, action: string, answer: string): Promise<void> {
    await row.getByRole('button', { name: new RegExp(`^${action}`) }).click();
    const dialog = operator.page.getByRole('dialog');
    await dialog.getByRole('button', { name: answer, exact: true }).click();
    await dialog.waitFor({ state: 'hidden' });
  }

  async function newSession(page: Person['page']): Promise<void> {
    await page.goto(`${service.managementUrl}/console/`);
    await page.locator('input').first().fill(service.operatorKey);
    await page.locator('input').first().press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  }
});

describe('a person without rights', () => {
  it('sees its own keys and spend, and is refused the pages of others by their address', async () => {
    const key = await issueKey({
      name: 'of ada',
      principal_id: 'ada',
      scopes: ['inference', 'models:read', 'usage:read', 'keys:read', 'keys:write'],
    });
    const ada = await person('dark');
    await ada.signIn(key);
    const links = await ada.page
      .getByRole('navigation', { name: 'Pages' })
      .getByRole('link')
      .allTextContents();
    expect(links).toEqual(['Overview', 'Usage', 'Requests', 'Keys', 'Models & prices', 'Connect a client']);
    await ada.open('/keys');
    await ada.page.getByRole('row', { name: /of ada/ }).waitFor();
    expect(await ada.page.getByRole('row').count()).toBe(2);
    expect(await ada.violations()).toEqual([]);
    for (const path of ['/audit', '/connectors', '/policies', '/webhooks', '/health']) {
      await ada.open(path);
      await ada.page.getByRole('alert').first().getByText('lacks the scope operator').waitFor();
    }
    expect(ada.faults).toEqual([]);
    await ada.context.close();
  }, 60_000);

  it('is told why a wrong key is refused', async () => {
    const stranger = await person();
    await stranger.page.goto(`${service.managementUrl}/`);
    await stranger.page.locator('input').first().fill('sk-svc-wrong');
    await stranger.page.locator('input').first().press('Enter');
    await stranger.page.getByRole('alert').waitFor();
    expect(await stranger.violations()).toEqual([]);
    await stranger.context.close();
  }, 60_000);
});
