import { startTestIssuer, TEST_AUDIENCE, type TestClaims, type TestIssuer } from '@weighbridge/testing';
import { afterAll, beforeAll, expect } from 'vitest';
import { DEFAULT_SCOPES } from '../src/shared/scopes.ts';
import { outcome, startTestApi, type TestApi } from './testApi.ts';

export const SCOPE_MAP = JSON.stringify({
  admins: [...DEFAULT_SCOPES, 'operator'],
  users: DEFAULT_SCOPES,
  readers: ['keys:read', 'usage:read'],
});

/** The operator API of a test file, which accepts the tokens of an issuer. It has the principals ada, bob and eve. */
export function useOidcApi() {
  let issuer: TestIssuer;
  let api: TestApi;
  beforeAll(async () => {
    issuer = await startTestIssuer();
    api = await startTestApi({
      OPENAI_API_KEY: 'sk-vendor',
      OIDC_ISSUER: issuer.url,
      OIDC_AUDIENCE: `another, ${TEST_AUDIENCE}`,
      OIDC_SCOPE_MAP: SCOPE_MAP,
    });
    for (const principal of ['ada', 'bob', 'eve']) {
      const { status } = await api.call('PUT', `/principals/${principal}`, { body: { policy_id: null } });
      expect(status).toBe(200);
    }
  });
  afterAll(async () => {
    await api?.close();
    await issuer?.close();
  });
  const token = (claims?: TestClaims) => issuer.token(api.now, { groups: ['readers'], ...claims });
  return {
    get issuer() {
      return issuer;
    },
    get api() {
      return api;
    },
    /** A token of ada, unless the claims name another subject. */
    token,
    by: async (claims?: TestClaims) => ({ key: await token(claims) }),
    /** The outcome of listing keys with this token or key. */
    read: (key: string) => outcome(api.call('GET', '/keys', { key })),
    seconds: () => Math.floor(api.now.getTime() / 1_000),
  };
}
