import { expect, it } from 'vitest';
import type { Given } from './changes.cases.ts';
import { PATHS } from './paths.ts';
import { settled, wholeAnswer } from './person.ts';

const UNAVAILABLE = {
  error: { code: 'database_unavailable', message: 'Database unavailable.', request_id: 'req_1' },
};
const NOTHING = { data: [], next_page_token: '' };
const AT = '2030-01-01T00:00:00.000Z';
const NO_SUMS = {
  from: AT,
  cost_micro_usd: 0,
  requests: 0,
  attempts: 0,
  failed_attempts: 0,
  input_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
};
/** The summary of a service that nothing happened to. */
const NEW_SUMMARY = {
  reach: 'all',
  today: NO_SUMS,
  month: NO_SUMS,
  days: [{ from: AT, cost_micro_usd: 0, requests: 0 }],
  budgets: [],
  recent: { since: null, answers: 0, cache_hits: 0, first_token_ms: null, duration_ms: null },
  overhead: null,
  attention: [],
  bucket_as_of: AT,
  complete: true,
};
/** What each page says when there is nothing to show. */
const EMPTY = [
  ['/', 'Nothing was spent this month. Connect a client to begin.'],
  ['/usage', 'No usage in this range. Choose a longer range, or connect a client.'],
  ['/requests', 'No request matches. Widen the filters, or connect a client.'],
  ['/keys', 'No key matches. Issue one for each application.'],
  ['/teams', 'No team. A team groups people, so that a budget counts for all of them.'],
  ['/policies', 'No policy matches.'],
  ['/overrides', 'No override: every counter has the limit of its policy.'],
  ['/models', 'No model can be asked. An operator adds a connector first.'],
  ['/connectors', 'No connector: no vendor can be reached. Add one with an account’s key.'],
  ['/profiles', 'No profile. Without one, a request names its model.'],
  ['/webhooks', 'No webhook: no one is told when a budget is exhausted or a vendor is down.'],
  ['/health', 'No proxy is connected: no request is served. Start a data plane.'],
  ['/audit', 'No change matches.'],
] as const;

/** What the API lets a name contain, and what only a broken service would send. */
const HOSTILE = `<img src=x onerror="alert(1)"><script>alert(2)</script>\u0000\u202e`;
/** The fields of answers that people or vendors wrote. */
const WRITTEN = /name$|reason|message|error|principal_id$|^created_by$|^model$|^detail|^names$/;

/** An answer whose every written text is hostile. */
function hostile(value: unknown, field = ''): unknown {
  if (Array.isArray(value)) return value.map((item) => hostile(item, field));
  if (typeof value === 'string') return WRITTEN.test(field) ? value + HOSTILE : value;
  if (typeof value !== 'object' || value === null) return value;
  const isOfNames = field === 'names';
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, hostile(inner, isOfNames ? field : name)]),
  );
}

/** What pages show when something is missing or fails. */
export function meetStates(given: () => Given): void {
  it('is told what failed on every page, and can try again, when the service answers 503', async () => {
    const { operator } = given();
    const { page, open } = operator;
    const fails = /\/api\/v1\/(?!session|whoami)/;
    await page.route(fails, (route) => route.fulfill({ status: 503, json: UNAVAILABLE }));
    for (const [path] of PATHS.filter(([one]) => one !== '/connect')) {
      await open(path);
      await page.getByRole('alert').first().getByText('Database unavailable.').waitFor();
      await settled(page);
      expect(await operator.violations()).toEqual([]);
    }
    await open('/keys');
    await page.getByRole('alert').waitFor();
    await page.unroute(fails);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('table', { name: 'Keys' }).waitFor();
    await page.route(/\/api\/v1\//, (route) => route.fulfill({ status: 503, json: UNAVAILABLE }));
    await open('/');
    await page.getByRole('alert').getByText('Database unavailable.').waitFor();
    await page.unroute(/\/api\/v1\//);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(operator.faults).toEqual([]);
  });

  it('is offered a shorter range, in one step, where a question to the ledger takes too long', async () => {
    const { page, open, violations } = given().operator;
    const tooBroad = {
      error: { code: 'query_too_broad', message: 'The query took too long.', request_id: 'req_1' },
    };
    await page.route(/\/api\/v1\/(spend|requests|summary)/, (route) =>
      route.fulfill({ status: 400, json: tooBroad }),
    );
    for (const [path, offer, search] of [
      ['/usage?group=connector&range=90', 'Show: last 30 days', 'range=30'],
      ['/requests?days=90', 'Search the last day', 'days=1'],
      ['/', 'Usage of the last 7 days', 'range=7'],
    ] as const) {
      await open(path);
      await page.getByRole('alert').first().getByText('The query took too long.').waitFor();
      expect(await violations()).toEqual([]);
      await page.getByRole('button', { name: offer }).first().click();
      await page.waitForURL((url) => url.search.includes(search));
    }
    await page.unrouteAll();
  });

  it('is told what is missing on every page, where there is no data yet, and no proxy', async () => {
    const { operator } = given();
    const { page, open } = operator;
    const lists =
      /\/api\/v1\/(spend|requests|keys|teams|principals|policies|overrides|aliases|models|proxies|connectors(\/health)?|profiles|evidence|webhooks|quarantine|audit)(\?|$)/;
    await page.route(lists, (route) => route.fulfill({ json: NOTHING }));
    await page.route(/\/api\/v1\/summary/, (route) => route.fulfill({ json: NEW_SUMMARY }));
    for (const [path, says] of EMPTY) {
      await open(path);
      await page.getByText(says).waitFor();
      await settled(page);
      expect(await operator.violations()).toEqual([]);
    }
    await page.unrouteAll();
    await page.route(/\/api\/v1\/requests/, (route) =>
      route.fulfill({ json: { ...NOTHING, next_page_token: 'older' } }),
    );
    await open('/requests?label=stage%3Dtest');
    await page.getByText('No request matches so far').waitFor();
    await page.getByRole('button', { name: 'Next page' }).click();
    await page.waitForURL(/page_token=older/);
    await page.unrouteAll();
    await open('/nowhere');
    await page.getByRole('heading', { level: 1, name: 'Not found' }).waitFor();
    await open('/requests/req_unknown');
    await page.getByRole('alert').waitFor();
  });

  it('reads every name on every page as text, with what can’t be seen in it made visible', async () => {
    const { operator } = given();
    const { page, open } = operator;
    await page.route(/\/api\/v1\/(?!session|whoami)/, async (route) => {
      const response = await wholeAnswer(route);
      await route.fulfill({ response, json: hostile(await response.json()) });
    });
    let shown = 0;
    for (const [path, title] of PATHS) {
      await open(path);
      await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
      await settled(page);
      expect([path, await page.locator('main img, main script').count()]).toEqual([path, 0]);
      const text = (await page.locator('main').textContent()) ?? '';
      expect([path, text.includes('\u0000') || text.includes('\u202e')]).toEqual([path, false]);
      if (text.includes('</script>␀⟨U+202E⟩')) shown += 1;
    }
    await page.unrouteAll();
    expect(shown).toBeGreaterThanOrEqual(9);
    expect(operator.faults).toEqual([]);
  });

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
  });

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
  });
}
