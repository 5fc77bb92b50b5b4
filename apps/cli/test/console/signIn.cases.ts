import { startTestProvider, type TestProvider } from '@weighbridge/testing';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manage, type Service } from '../mainJob.ts';
import { newPerson, type Person, settled } from './person.ts';

const OWN = ['keys:read', 'keys:write', 'usage:read', 'models:read'];
const PEOPLE = new Map([
  ['Olga', { sub: 'olga', groups: ['admins'] }],
  ['Leo', { sub: 'leo', groups: ['users', 'sso-leads'] }],
  ['Mia', { sub: 'mia', groups: ['users', 'sso'] }],
]);

/** A provider at another site than the console, for a service that will listen at this address. */
export async function startLogin(publicUrl: string): Promise<TestProvider> {
  const client = {
    id: 'console',
    secret: 'the secret of the console',
    redirectUri: `${publicUrl}/console/sign-in/oidc/callback`,
    postLogoutRedirectUri: `${publicUrl}/console/`,
  };
  return await startTestProvider(client, { host: 'localhost', people: PEOPLE });
}

/** The settings of a service where people sign in by a provider. */
export function loginSettings({ url }: TestProvider, publicUrl: string): Record<string, string> {
  return {
    PUBLIC_URL: publicUrl,
    OIDC_ISSUER: url,
    OIDC_CLIENT_ID: 'console',
    OIDC_CLIENT_SECRET: 'the secret of the console',
    OIDC_SIGN_IN_NAME: 'Example login',
    OIDC_SCOPE_MAP: JSON.stringify({ admins: [...OWN, 'operator'], users: OWN }),
    OIDC_ROLE_MAP: JSON.stringify({ admins: 'operator' }),
    OIDC_TEAM_MAP: JSON.stringify({ sso: 'sso', 'sso-leads': { team: 'sso', role: 'lead' } }),
  };
}

/** People sign in by the page of a provider. */
export function signInElsewhere(
  given: () => { readonly browser: Browser; readonly service: Service; readonly login: TestProvider },
): void {
  let someone: Person;
  beforeAll(async () => {
    const { browser, service, login } = given();
    await manage(service, 'POST', '/api/v1/teams', { body: { name: 'sso' } });
    someone = await newPerson(browser, service.managementUrl, 'light', [login.url]);
  });
  afterAll(() => someone?.context.close());

  const goToLogin = async (page: Page) => {
    await page.getByRole('link', { name: 'Sign in with Example login' }).click();
    await page.getByRole('heading', { level: 1, name: 'Who are you?' }).waitFor();
  };
  const choose = (page: Page, name: string) => page.getByRole('link', { name }).click();

  describe('signs in by a provider', () => {
    it.each([
      ['Olga', 'operator', true],
      ['Leo', 'lead', true],
      ['Mia', 'member', false],
    ])(
      '%s as %s, where they were, and out of both',
      async (name, role, seesTeams) => {
        const { login, service } = given();
        const { page, context } = someone;
        await someone.open('/usage?group=model&range=7');
        await page.getByRole('heading', { level: 1, name: 'Sign in to Weighbridge' }).waitFor();
        expect(await someone.violations()).toEqual([]);
        await goToLogin(page);
        await choose(page, name);
        await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
        await settled(page);
        expect(page.url()).toBe(`${service.managementUrl}/console/usage?group=model&range=7`);
        await page.getByText(role, { exact: true }).waitFor();
        expect(await page.getByRole('link', { name: 'Principals & teams' }).count()).toBe(seesTeams ? 1 : 0);
        const cookies = await context.cookies(`${service.managementUrl}/api/v1`);
        expect(cookies).toMatchObject([{ name: 'weighbridge_session', httpOnly: true, sameSite: 'Strict' }]);
        // A reload, and a link from another site.
        await page.reload();
        await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
        await page.goto(login.url);
        await someone.open('/requests');
        await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor();

        const before = login.signedOut.length;
        await page.getByRole('button', { name: 'Sign out' }).click();
        await page.getByRole('heading', { level: 1, name: 'Sign in to Weighbridge' }).waitFor();
        expect(login.signedOut.length).toBe(before + 1);
        expect(await context.cookies(`${service.managementUrl}/api/v1`)).toEqual([]);
        expect(login.refusals).toEqual([]);
        expect(someone.faults).toEqual([]);
      },
      60_000,
    );

    it('by keyboard, and again where a session ended', async () => {
      const { page, context, open } = someone;
      await open('/keys');
      await page.getByLabel('Key').waitFor();
      await page.keyboard.press('Tab');
      await page
        .getByRole('link', { name: 'Sign in with Example login' })
        .and(page.locator(':focus'))
        .waitFor();
      await page.keyboard.press('Enter');
      await choose(page, 'Mia');
      await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
      await settled(page);
      await context.clearCookies();
      await page.getByRole('link', { name: 'Models & prices' }).click();
      await page.getByText('Your session ended.').waitFor();
      await goToLogin(page);
      await choose(page, 'Mia');
      await page.getByRole('heading', { level: 1, name: 'Models & prices' }).waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByRole('heading', { level: 1, name: 'Sign in to Weighbridge' }).waitFor();
      expect(someone.faults).toEqual([]);
    });

    it('not: and is told why, as text, and how to go on', async () => {
      const { page, context, open } = someone;
      await context.clearCookies();
      await open('/keys');
      await goToLogin(page);
      await choose(page, 'Refuse');
      await page.getByRole('heading', { level: 1, name: 'Sign-in failed' }).waitFor();
      await page.getByText('It says: <b onclick="alert(1)">You may not</b>').waitFor();
      expect(await page.locator('main b').count()).toBe(0);
      expect(await someone.violations()).toEqual([]);
      await page.getByRole('link', { name: 'Back to the sign-in page' }).click();
      await page.getByRole('heading', { level: 1, name: 'Sign in to Weighbridge' }).waitFor();
      expect(new URL(page.url()).pathname).toBe('/console/keys');
      expect(someone.faults).toEqual([]);
    });
  });
}
