import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mainJob } from '../mainJob.ts';
import { PATHS } from './paths.ts';
import { act, type Person, settled } from './person.ts';
import { type TestConsole, useConsole } from './useConsole.ts';

// What every change should meet; all else that people do with the console is in console.all.test.ts.

/** A folder for screenshots of all pages; unset: none are taken. */
const SCREENSHOTS = process.env.CONSOLE_SCREENSHOTS;
const started = useConsole();
let service: TestConsole['service'];
let person: TestConsole['person'];
beforeAll(() => {
  ({ service, person } = started());
});

describe('an operator', () => {
  let operator: Person;
  beforeAll(async () => {
    await mainJob(service, 'mock/echo');
    operator = await person();
    await operator.signIn(service.operatorKey);
  });
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
  });

  it('issues a key whose secret is shown once and works, and revokes it', async () => {
    const { page } = operator;
    await operator.open('/keys');
    await page.getByRole('button', { name: 'Issue a key' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('from the console');
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

    await act(page, 'Revoke', 'from the console');
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke the key' }).click();
    await row.getByText('revoked').waitFor();
    expect((await use()).status).toBe(401);
    expect(operator.faults).toEqual([]);
  });
});

describe('whoever has no key', () => {
  it('signs in once by the link that the service printed, and is told why not twice', async () => {
    const link = /Sign in: +(\S+)/.exec(started().running.output())?.[1] ?? '';
    const first = await person();
    await first.page.goto(link);
    await first.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    const second = await person();
    await second.page.goto(link);
    await second.page.getByText(/^This sign-in link was used or has expired.*another link/).waitFor();
    expect(await second.violations()).toEqual([]);
    await Promise.all([first.context.close(), second.context.close()]);
  });

  it('is told why a wrong key is refused', async () => {
    const stranger = await person();
    await stranger.page.goto(`${service.managementUrl}/`);
    await stranger.page.locator('input').first().fill('sk-svc-wrong');
    await stranger.page.locator('input').first().press('Enter');
    await stranger.page.getByRole('alert').waitFor();
    expect(await stranger.violations()).toEqual([]);
    await stranger.context.close();
  });
});
