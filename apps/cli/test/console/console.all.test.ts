import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ask, mainJob, manage } from '../mainJob.ts';
import { changeResources } from './changes.cases.ts';
import { changeMore } from './moreChanges.cases.ts';
import { PATHS } from './paths.ts';
import { type Person, settled } from './person.ts';
import { signInElsewhere } from './signIn.cases.ts';
import { meetStates } from './states.cases.ts';
import { fitTables } from './tables.cases.ts';
import { type TestConsole, useConsole } from './useConsole.ts';

/** What the API lets a name contain; `visible` in the console's text.ts shows what it doesn't. */
const HOSTILE = `<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}}`;
const started = useConsole();
let service: TestConsole['service'];
let person: TestConsole['person'];
let issueKey: TestConsole['issueKey'];
beforeAll(() => {
  ({ service, person, issueKey } = started());
});

describe('an operator', () => {
  let operator: Person;
  beforeAll(async () => {
    await mainJob(service, 'mock/echo');
    await manage(service, 'POST', '/api/v1/teams', { body: { name: 'research' } });
    operator = await person();
    await operator.signIn(service.operatorKey);
  });
  afterAll(() => operator?.context.close());

  changeResources(() => ({ operator, service }));
  changeMore(() => ({ operator, service }));
  fitTables(() => ({ operator, service }));

  it('sees what a request cost, and finds it by its address', async () => {
    const { page } = operator;
    await operator.open('/requests');
    await page.getByRole('row').nth(1).getByRole('link').waitFor();
    await page.getByText('More filters').click();
    await page.getByLabel('Cost at least, USD').fill('1000');
    await page.getByLabel('Labels').fill('stage=test');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('No request matches. Widen the filters').waitFor();
    expect(new URL(page.url()).searchParams.get('min_cost')).toBe('1000');
    expect(await operator.violations()).toEqual([]);
    await page.getByText('More filters (2)').waitFor();
    await operator.open('/requests?provider=mock');
    await page.getByRole('row').nth(1).getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: /^Request req_/ }).waitFor();
    await page.reload();
    await page.getByRole('table', { name: 'Attempts' }).waitFor();
    await page
      .getByRole('table', { name: 'Cost by class' })
      .getByRole('row', { name: /^Input/ })
      .waitFor();
    expect(await page.getByText('mock/echo').count()).toBeGreaterThan(0);
    // Of someone else's request, who asked for it says how good the answer was.
    expect(await page.getByRole('button', { name: 'Give feedback' }).count()).toBe(0);
    expect(await operator.violations()).toEqual([]);
    expect(operator.faults).toEqual([]);
  });

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
    const [parquet] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'FOCUS as Parquet' }).click(),
    ]);
    expect((await readFile(await parquet.path())).subarray(0, 4).toString()).toBe('PAR1');
    expect(operator.faults).toEqual([]);
  });

  it('sees how much time the proxies add to requests', async () => {
    const { page } = operator;
    const overhead = async () => (await manage(service, 'GET', '/api/v1/summary', {})).body.overhead;
    await expect.poll(overhead).toMatchObject({ proxies: 1, p50_ms: expect.any(Number) });
    await operator.open('/');
    await page.getByText(/^p95 .* requests in \d+ min$/).waitFor();
    await page.getByText(/^p95 .*; streams, last 24 h$/).waitFor();
    await page.getByText(/^p95 .*; all responses, last 24 h$/).waitFor();
    expect(operator.faults).toEqual([]);
  });

  it('sees whose budget is close to its limit, a key by its name', async () => {
    const { page } = operator;
    const each = { name: 'each key', limit_micro_usd: 10_000, counter_scope: 'key' };
    const { body: policy } = await manage(service, 'POST', '/api/v1/policies', { body: each });
    const key = await issueKey({ name: 'nightly batch', policy_id: policy.id });
    await ask(service, key);
    const names = async () => {
      const { body } = await manage(service, 'GET', '/api/v1/summary');
      return (body.budgets as { key_name: string | null }[]).map(({ key_name }) => key_name);
    };
    await expect.poll(names).toContain('nightly batch');
    await operator.open('/');
    await page.getByRole('row', { name: /^each key nightly batch/ }).waitFor();
    expect(operator.faults).toEqual([]);
  });

  it('asks a model in the playground, sees what it cost, and connects a client with a fresh key', async () => {
    const { page } = operator;
    await operator.open('/playground');
    await page.getByLabel('Model').fill('mock/echo');
    await page.getByLabel('Prompt').fill('A playground weighs answers.');
    await page.getByRole('button', { name: 'Ask' }).click();
    await page.locator('pre[data-done]').getByText('A playground weighs answers.').waitFor();
    await page.getByText(/^\$0\.\d+$/).waitFor();
    await page.getByText('env-mock: success').waitFor();
    expect(await operator.violations()).toEqual([]);
    await page.getByRole('link', { name: /^req_/ }).click();
    await page.getByRole('button', { name: 'Give feedback' }).click();
    await page.getByLabel('Score').selectOption('0.75');
    await page.getByLabel('Comment').fill('Right, but long.');
    expect(await operator.violations()).toEqual([]);
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('Right, but long.').waitFor();
    await operator.open('/connect');
    await page.getByLabel('What will use it').fill('my laptop');
    await page.getByLabel('Budget in USD a month').fill('3');
    await page.getByRole('button', { name: 'Issue a key for these settings' }).click();
    await page.getByText('The key below is shown once.').waitFor();
    const snippet = (await page.locator('pre').first().textContent()) ?? '';
    const key = /sk-svc-\S+/.exec(snippet)?.[0] ?? '';
    expect((await manage(service, 'GET', '/api/v1/whoami', { key })).body.key_name).toBe('my laptop');
    const { body: usage } = await manage(service, 'GET', '/api/v1/usage', { key });
    expect(usage).toMatchObject({ limit_micro_usd: 3_000_000, pooled: true });
    expect(operator.faults).toEqual([]);
  });

  it('reads names as text, whatever they contain', async () => {
    await issueKey({ name: HOSTILE });
    const { page } = operator;
    await operator.open(`/keys?name_contains=${encodeURIComponent('onerror')}`);
    await page.getByRole('row', { name: HOSTILE }).waitFor();
    expect(await page.locator('td img, td script').count()).toBe(0);
    expect(operator.faults).toEqual([]);
  });

  meetStates(() => ({ operator, service }));

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
  });

  async function newSession(page: Person['page']): Promise<void> {
    await page.goto(`${service.managementUrl}/console/`);
    await page.locator('input').first().fill(service.operatorKey);
    await page.locator('input').first().press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  }
});

describe('whoever has no key', () => {
  signInElsewhere(started);
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
    expect(links).toEqual([
      'Overview',
      'Usage',
      'Requests',
      'Keys',
      'Models & prices',
      'Playground',
      'Connect a client',
    ]);
    await ada.open('/keys');
    await ada.page.getByRole('row', { name: /of ada/ }).waitFor();
    expect(await ada.page.getByRole('row').count()).toBe(2);
    await ada.page.getByRole('row', { name: /of ada.*default/ }).waitFor();
    expect(await ada.violations()).toEqual([]);
    // Budgets and policies are an operator's.
    await ada.page.getByRole('button', { name: 'Issue a key' }).click();
    const dialog = ada.page.getByRole('dialog');
    await dialog.getByText('The policy default governs it.').waitFor();
    expect(await dialog.getByLabel(/Budget|Policy/).count()).toBe(0);
    await dialog.getByLabel('Name').fill('notebook of ada');
    await dialog.getByRole('button', { name: 'Issue', exact: true }).click();
    await dialog.getByText(/^sk-svc-/).waitFor();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await ada.page.getByRole('row', { name: /notebook of ada/ }).waitFor();
    for (const path of ['/audit', '/connectors', '/policies', '/webhooks', '/health']) {
      await ada.open(path);
      await ada.page.getByRole('alert').first().getByText('lacks the scope operator').waitFor();
    }
    expect(ada.faults).toEqual([]);
    await ada.context.close();
  });

  it('sees all as an auditor, and changes nothing', async () => {
    await manage(service, 'PUT', '/api/v1/principals/alan', { body: { role: 'auditor' } });
    const scopes = ['models:read', 'usage:read', 'keys:read', 'admin:read'];
    const auditor = await person();
    await auditor.signIn(await issueKey({ name: 'of alan', principal_id: 'alan', scopes }));
    for (const [path, title] of PATHS.filter(([one]) => one !== '/playground')) {
      await auditor.open(path);
      await auditor.page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
      await settled(auditor.page);
      expect([path, await auditor.page.getByRole('alert').allTextContents()]).toEqual([path, []]);
      const changes = auditor.page.getByRole('button', {
        name: /^(Create|Add|Edit|Delete|Issue|Revoke|Retire)/,
      });
      expect([path, await changes.allTextContents()]).toEqual([path, []]);
      // Nor in a menu.
      expect([path, await auditor.page.getByRole('button', { name: /^More/ }).count()]).toEqual([path, 0]);
    }
    expect(auditor.faults).toEqual([]);
    await auditor.context.close();
  });

  it('leads a team: sees its members and what they spent', async () => {
    const { body: team } = await manage(service, 'POST', '/api/v1/teams', {
      body: { name: 'lead by edsger' },
    });
    for (const [principal, role] of [
      ['edsger', 'lead'],
      ['niklaus', 'member'],
    ]) {
      await manage(service, 'PUT', `/api/v1/teams/${team.id}/members/${principal}`, { body: { role } });
    }
    const lead = await person();
    await lead.signIn(await issueKey({ name: 'of edsger', principal_id: 'edsger', scopes: ['usage:read'] }));
    await lead.page.getByRole('link', { name: 'Principals & teams' }).click();
    await lead.page.getByRole('button', { name: 'Members lead by edsger' }).click();
    await lead.page
      .getByRole('dialog')
      .getByRole('row', { name: /niklaus.*member/ })
      .waitFor();
    expect(await lead.page.getByRole('row', { name: /engines/ }).count()).toBe(0);
    expect(await lead.violations()).toEqual([]);
    expect(lead.faults).toEqual([]);
    await lead.context.close();
  });
});
