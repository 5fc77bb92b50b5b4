import { startTestProvider, type TestClaims, type TestProvider } from '@weighbridge/testing';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { SCOPE_MAP } from './oidcApi.ts';
import { startTestApi, type TestApi } from './testApi.ts';

const PUBLIC_URL = 'https://llm.example.com';
export const CLIENT = {
  id: 'weighbridge-console',
  secret: 'a secret: with %, + and /',
  redirectUri: `${PUBLIC_URL}/console/sign-in/oidc/callback`,
  postLogoutRedirectUri: `${PUBLIC_URL}/console/`,
};
export const START = '/console/sign-in/oidc';
/** A person that has a principal, in no team. */
export const ADA = { sub: 'ada', groups: ['users'] };

export type Answer = Awaited<ReturnType<TestApi['get']>>;
export const cookiesOf = ({ headers }: Answer) => [headers['set-cookie'] ?? []].flat() as string[];
export const cookieOf = (answer: Answer, name: string) =>
  cookiesOf(answer)
    .find((one) => one.startsWith(`${name}=`) && !one.includes('Max-Age=0'))
    ?.split(';')[0];
export const pathOf = (url: URL) => `${url.pathname}${url.search}`;

/** The operator API of a test file, to whose console people sign in by a provider. It has the principal ada and the team search. */
export function useSignIn() {
  let api: TestApi;
  let provider: TestProvider;
  const settings = () => ({
    PUBLIC_URL,
    OIDC_ISSUER: provider.url,
    OIDC_CLIENT_ID: CLIENT.id,
    OIDC_CLIENT_SECRET: CLIENT.secret,
    OIDC_SIGN_IN_NAME: 'Example login',
    OIDC_SCOPE_MAP: SCOPE_MAP,
    OIDC_ROLE_MAP: '{"admins": "operator"}',
    OIDC_TEAM_MAP: '{"search": "search", "search-leads": {"team": "search", "role": "lead"}, "gone": "gone"}',
  });
  beforeAll(async () => {
    provider = await startTestProvider(CLIENT, { now: () => api.now });
    api = await startTestApi(settings());
    await api.call('POST', '/teams', { body: { name: 'search' } });
    await api.call('PUT', '/principals/ada', { body: { policy_id: null } });
  });
  afterAll(async () => {
    await api?.close();
    await provider?.close();
  });
  afterEach(() => {
    provider.forge(undefined);
    provider.misbehave(undefined);
  });

  /** Goes to the issuer's page, and back to the callback with what the browser keeps meanwhile. */
  async function comeBack(person: TestClaims, returnTo?: string) {
    const query = returnTo === undefined ? '' : `?return_to=${encodeURIComponent(returnTo)}`;
    const began = await api.get(`${START}${query}`);
    expect([began.status, began.text]).toEqual([303, '']);
    provider.person = person;
    const callback = await provider.authorize(String(began.headers.location));
    return { began, callback, cookie: cookieOf(began, 'weighbridge_sign_in') ?? '' };
  }

  const finish = (callback: URL | string, cookie: string) =>
    api.get(typeof callback === 'string' ? callback : pathOf(callback), { headers: { cookie } });

  return {
    get api() {
      return api;
    },
    get provider() {
      return provider;
    },
    settings,
    comeBack,
    finish,
    async signIn(person: TestClaims, returnTo?: string) {
      const { callback, cookie } = await comeBack(person, returnTo);
      const answer = await finish(callback, cookie);
      return { ...answer, session: cookieOf(answer, 'weighbridge_session') ?? '' };
    },
    async read(path: string, cookie: string) {
      const { status, text } = await api.get(`/api/v1${path}`, { headers: { cookie } });
      return { status, body: JSON.parse(text || '{}') };
    },
    /** The service's clock goes on. */
    pass(ms: number) {
      api.now = new Date(api.now.getTime() + ms);
    },
  };
}
